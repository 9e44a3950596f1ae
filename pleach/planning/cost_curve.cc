#include "pleach/planning/cost_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <numeric>

#include "pleach/base/units.h"
#include "pleach/network/model.h"
#include "pleach/planning/best_segments.h"
#include "pleach/planning/padding.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

constexpr std::size_t kMostSimulations = 40;
constexpr int64_t kFirstSize = 1 << 10;     // of the start sizes above one byte
constexpr int64_t kManySegments = 100'000;  // in one simulation: start with fewer sizes
constexpr double kSendTolerance = 0.005;

// Schedules that start together, timed at one size after the other.
class Timer {
 public:
  // Borrows `topology`. segment_count 0: the best at each size.
  static Result<Timer> create(const Topology& topology, const std::string& model,
                              std::vector<Schedule> schedules, int32_t segment_count) {
    Timer timer(topology, model);
    timer.options_.segment_count = segment_count;
    for (Schedule& schedule : schedules) {
      timer.schedules_.push_back(std::make_shared<const Schedule>(std::move(schedule)));
    }
    if (segment_count > 0) {  // a session derives what it needs of a schedule once
      PLEACH_SET(timer.session_, open_network(model, topology, timer.options_));
    }
    return timer;
  }

  // Until the last of them ends.
  Result<int64_t> time_ps(int64_t size_bytes) {
    if (session_ != nullptr) {
      return time_in_session(size_bytes);
    }
    std::vector<Job> jobs;
    for (const auto& schedule : schedules_) {
      jobs.push_back({schedule, size_bytes, 0});
    }
    PLEACH_ASSIGN(best, find_best_segments(model_, *topology_, jobs, options_));
    return best.simulation.finish_ps;
  }

  bool is_empty() const { return schedules_.empty(); }
  // Segments of messages in one simulation.
  int64_t segment_count() const {
    int64_t sum = 0;
    for (const auto& schedule : schedules_) {
      sum += schedule->transfer_count();
    }
    return sum * (options_.segment_count == 0 ? 128 : options_.segment_count);
  }

 private:
  Timer(const Topology& topology, std::string model)
      : topology_(&topology), model_(std::move(model)) {}

  Result<int64_t> time_in_session(int64_t size_bytes) {
    const int64_t start_ps = now_ps_;
    for (const auto& schedule : schedules_) {
      PLEACH_TRY(session_->start({schedule, size_bytes, start_ps}));
    }
    while (session_->next_ps().has_value()) {
      PLEACH_ASSIGN(finished, session_->advance(*session_->next_ps()));
      for (const NetworkSession::Finish& one : finished) {
        now_ps_ = one.time_ps;
      }
    }
    return now_ps_ - start_ps;
  }

  const Topology* topology_;
  std::string model_;
  std::vector<std::shared_ptr<const Schedule>> schedules_;
  SimulationOptions options_;
  std::unique_ptr<NetworkSession> session_;
  int64_t now_ps_ = 0;  // of the session
};

struct Sampling {
  int64_t largest_bytes = 0;
  double tolerance = 0;
  int64_t unit_bytes = 1;  // sizes are multiples
};

// Time on the line from one sample to the next, or beyond.
int64_t on_line(const CostCurve::Sample& from, const CostCurve::Sample& to, int64_t size_bytes) {
  const __int128 rise = to.time_ps - from.time_ps;
  const __int128 time =
      from.time_ps + rise * (size_bytes - from.size_bytes) / (to.size_bytes - from.size_bytes);
  return static_cast<int64_t>(std::min<__int128>(time, kLongestPs));
}

// Simulated sizes, and the pieces between them that are still to be looked at.
class Sampler {
 public:
  Sampler(Timer& timer, const Sampling& sampling) : timer_(timer), sampling_(sampling) {}

  // One byte, then powers of 8 from 1 KiB (of 512 where a simulation is long), and the largest.
  // Then, widest first, the geometric middle of every piece; where the line was off by more than
  // the tolerance, the two halves, until all pieces are good or kMostSimulations are spent.
  Result<std::vector<CostCurve::Sample>> run() {
    PLEACH_TRY(add(1));
    const int64_t factor = timer_.segment_count() > kManySegments ? 512 : 8;
    for (int64_t size = kFirstSize; size < sampling_.largest_bytes; size *= factor) {
      PLEACH_TRY(add(size));
      if (size > sampling_.largest_bytes / factor) {
        break;
      }
    }
    PLEACH_TRY(add(sampling_.largest_bytes));
    for (auto low = times_.begin(); std::next(low) != times_.end(); ++low) {
      pieces_.push_back({low->first, std::next(low)->first});
    }
    while (!pieces_.empty() && times_.size() < kMostSimulations) {
      const Piece piece = pieces_.front();
      pieces_.pop_front();
      PLEACH_TRY(split(piece));
    }
    std::vector<CostCurve::Sample> samples;
    for (const auto& [size_bytes, time_ps] : times_) {
      samples.push_back({size_bytes, time_ps});
    }
    return samples;
  }

 private:
  struct Piece {
    int64_t low_bytes = 0;
    int64_t high_bytes = 0;
  };

  int64_t rounded(int64_t size_bytes) const {
    return padded_bytes(size_bytes, sampling_.unit_bytes);
  }
  Status add(int64_t size_bytes) {
    size_bytes = rounded(size_bytes);
    if (times_.count(size_bytes) == 0) {
      PLEACH_ASSIGN(time_ps, timer_.time_ps(size_bytes));
      times_[size_bytes] = time_ps;
    }
    return ok();
  }
  Status split(const Piece& piece) {
    const auto [low_bytes, high_bytes] = piece;
    const double middle =
        std::sqrt(static_cast<double>(low_bytes) * static_cast<double>(high_bytes));
    const int64_t size_bytes = rounded(static_cast<int64_t>(middle));
    if (size_bytes <= low_bytes || size_bytes >= high_bytes) {
      return ok();
    }
    const int64_t guess_ps =
        on_line({low_bytes, times_[low_bytes]}, {high_bytes, times_[high_bytes]}, size_bytes);
    PLEACH_TRY(add(size_bytes));
    const auto time_ps = static_cast<double>(times_[size_bytes]);
    if (std::abs(time_ps - static_cast<double>(guess_ps)) > sampling_.tolerance * time_ps) {
      pieces_.push_back({low_bytes, size_bytes});
      pieces_.push_back({size_bytes, high_bytes});
    }
    return ok();
  }

  Timer& timer_;
  Sampling sampling_;
  std::map<int64_t, int64_t> times_;  // by size
  std::deque<Piece> pieces_;
};

Result<CostCurve> measure_curve(Timer& timer, const Sampling& sampling) {
  if (!(sampling.tolerance > 0)) {
    return invalid(fmt::format("tolerance {}: must be positive", sampling.tolerance));
  }
  if (timer.is_empty()) {
    return CostCurve::from_samples({{1, 0}});
  }
  PLEACH_ASSIGN(samples, Sampler(timer, sampling).run());
  return CostCurve::from_samples(std::move(samples));
}

Result<Schedule> send_schedule(const SendRequest& request, std::size_t pair) {
  const auto [source, target] = request.pairs[pair];
  for (const NodeId node : {source, target}) {
    if (node.value < 0 || node.index() >= request.topology.nodes().size()) {
      return invalid(
          fmt::format("pair {}: {} is no node of {}", pair, node.value, request.topology.name()));
    }
  }
  Schedule schedule;
  schedule.collective = CollectiveKind::kBroadcast;
  schedule.participants = {source, target};
  schedule.phase_steps = {1};
  schedule.transfers = {{.source = source, .target = target}};
  return schedule;
}

}  // namespace

Result<CostCurve> CostCurve::measure(const CurveRequest& request) {
  if (request.segment_count < 0) {
    return invalid(fmt::format("segments {}: must not be negative", request.segment_count));
  }
  if (request.groups.empty()) {
    return invalid(fmt::format("no group does the {}", to_text(request.collective)));
  }
  std::vector<Schedule> schedules;
  int64_t unit_bytes = 1;
  for (const std::vector<NodeId>& group : request.groups) {
    if (group.empty()) {
      return invalid(fmt::format("group {} has no ranks", &group - request.groups.data()));
    }
    if (group.size() == 1) {
      continue;
    }
    PLEACH_ASSIGN(schedule, synthesize({.topology = request.topology,
                                        .participants = group,
                                        .collective = request.collective,
                                        .wants_certificate = false},
                                       request.algorithm));
    const int64_t own_bytes = padding_unit_bytes(schedule, request.segment_count);
    if (own_bytes <= (int64_t{1} << 40) / unit_bytes) {
      unit_bytes = std::lcm(unit_bytes, own_bytes);
    }
    schedules.push_back(std::move(schedule));
  }
  PLEACH_ASSIGN(timer, Timer::create(request.topology, request.model, std::move(schedules),
                                     request.segment_count));
  return measure_curve(
      timer, {std::max<int64_t>(1, request.largest_bytes), request.tolerance, unit_bytes});
}

CostCurve CostCurve::from_samples(std::vector<Sample> samples) {
  PLEACH_CHECK(!samples.empty(), "a curve has samples");
  CostCurve curve;
  curve.samples_ = std::move(samples);
  int64_t longest_ps = 0;
  for (Sample& sample : curve.samples_) {
    sample.time_ps = longest_ps = std::max(longest_ps, sample.time_ps);
  }
  return curve;
}

int64_t CostCurve::time_ps(int64_t size_bytes) const {
  if (size_bytes <= 0) {
    return 0;
  }
  if (size_bytes <= samples_.front().size_bytes || samples_.size() == 1) {
    return samples_.front().time_ps;
  }
  auto next =
      std::lower_bound(samples_.begin(), samples_.end(), size_bytes,
                       [](const Sample& sample, int64_t size) { return sample.size_bytes < size; });
  if (next == samples_.end()) {
    --next;
  }
  return on_line(*std::prev(next), *next, size_bytes);
}

Result<CostCurve> measure_send(const SendRequest& request) {
  if (request.pairs.empty()) {
    return invalid("no pair sends");
  }
  std::vector<Schedule> schedules;
  for (std::size_t pair = 0; pair < request.pairs.size(); ++pair) {
    PLEACH_ASSIGN(schedule, send_schedule(request, pair));
    if (schedule.participants.front() != schedule.participants.back()) {
      schedules.push_back(std::move(schedule));
    }
  }
  PLEACH_ASSIGN(timer, Timer::create(request.topology, request.model, std::move(schedules), 1));
  return measure_curve(timer, {std::max<int64_t>(1, request.largest_bytes), kSendTolerance, 1});
}

}  // namespace pleach
