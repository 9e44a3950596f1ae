#include "pleach/training/free_iteration.h"

#include <algorithm>
#include <memory>
#include <set>

#include "pleach/training/timekeeper.h"

namespace pleach {
namespace {

// What the collectives of some families cost is nothing.
class FreeFamilies : public OperationCosts {
 public:
  FreeFamilies(OperationCosts& costs, const Trace& trace, bool free_exchanges) : costs_(costs) {
    for (const GradientGroup& group : trace.gradient_groups) {
      families_.insert(group.family);
    }
    if (free_exchanges) {
      families_.insert(find_family(trace, FamilyRole::kExpert));
    }
  }
  Result<int64_t> collective_ps(const GroupCollective& what) override {
    if (families_.contains(what.family)) {
      return int64_t{0};
    }
    return costs_.collective_ps(what);
  }
  Result<int64_t> send_ps(const WorkerSend& what) override { return costs_.send_ps(what); }

 private:
  OperationCosts& costs_;
  std::set<int32_t> families_;
};

}  // namespace

Result<FreeIteration> run_without_gradients(const Trace& trace, OperationCosts& costs,
                                            const IterationOptions& options, bool free_exchanges) {
  FreeFamilies free(costs, trace, free_exchanges);
  std::vector<TrainingProfile> profiles;
  std::vector<std::unique_ptr<Timekeeper>> keepers;
  std::vector<Policy*> borrowed;
  for (const GradientGroup& group : trace.gradient_groups) {
    profiles.push_back(profile_of(group));
    keepers.push_back(std::make_unique<Timekeeper>(profiles.back()));
    borrowed.push_back(keepers.back().get());
  }
  const auto network = independent_network(free);
  IterationOptions plain = options;
  plain.most_iterations = std::max(options.most_iterations, 4);
  plain.jitter = 0;
  plain.keep_spans = false;
  PLEACH_ASSIGN(run, simulate_training(trace, borrowed, *network, plain));
  FreeIteration result{.iteration_ps = run.iteration_ps, .told = {}};
  for (std::size_t group = 0; group < profiles.size(); ++group) {
    result.told.push_back(keepers[group]->told(profiles[group]));
  }
  return result;
}

}  // namespace pleach
