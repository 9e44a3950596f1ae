// ScheduleForms: the forms in which network models simulate one schedule, each derived when it is
// first asked for, and kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/symmetry.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Of one schedule, of which what is derived is remembered.
inline constexpr std::size_t kMostSizes = 1 << 16;

// A symmetric schedule is folded where all ranks are alike, every translate has its state where
// they are not, and it is written out where priorities within a connection depend on chunk numbers.
// Not thread safe.
class ScheduleForms {
 public:
  // `topology` and `options` outlive the forms. Errors: kInvalidArgument: participants that do not
  // fit; kInfeasible: a transfer without a route; what expand() refuses.
  static Result<std::unique_ptr<ScheduleForms>> create(
      const Topology& topology, const std::shared_ptr<const Schedule>& schedule,
      const SimulationOptions& options);

  // As it is simulated: with routes, and no more chunks than make a difference.
  const Schedule& schedule() const { return *schedule_; }
  // One rank for all; none where that would not be exact. Only for a job without company.
  Result<std::optional<LoweredJob>> folded(int64_t size_bytes);
  // Every rank.
  Result<LoweredJob> whole(int64_t size_bytes);
  // Folded: what the one rank did to each class of links is what all did to each link of it.
  std::vector<LinkUse> sum_classes(std::span<const LinkUse> links) const;
  // Adds to every link `times` what its class has.
  void spread_classes(std::span<const LinkUse> classes, int64_t times,
                      std::vector<LinkUse>& links) const;

 private:
  ScheduleForms(const Topology& topology, std::shared_ptr<const Schedule> schedule,
                const SimulationOptions& options)
      : topology_(topology), options_(options), schedule_(std::move(schedule)) {}
  Result<std::shared_ptr<const SegmentSizes>> sizes(int64_t size_bytes);

  const Topology& topology_;
  const SimulationOptions& options_;
  const std::shared_ptr<const Schedule> schedule_;
  std::shared_ptr<const Schedule> simulated_;      // that, or written out
  std::shared_ptr<const LoweredSchedule> folded_;  // null: not exact on this topology
  std::shared_ptr<const LoweredSchedule> whole_;   // null: not asked for yet
  std::optional<LinkTranslation> links_;           // where it folds
  std::unordered_map<int64_t, std::shared_ptr<const SegmentSizes>> sizes_;  // by size
};

// The forms of the schedules that a session has met, by identity of the shared pointer.
class KnownSchedules {
 public:
  // Both outlive this.
  KnownSchedules(const Topology& topology, const SimulationOptions& options)
      : topology_(topology), options_(options) {}
  // Lives as long as this. Errors: those of ScheduleForms::create.
  Result<ScheduleForms*> find(const std::shared_ptr<const Schedule>& schedule);

 private:
  const Topology& topology_;
  const SimulationOptions& options_;
  // Keeps the schedules, so that no other one has the place of one that it knows.
  std::unordered_map<std::shared_ptr<const Schedule>, std::unique_ptr<ScheduleForms>> forms_;
};

}  // namespace pleach
