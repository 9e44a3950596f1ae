#include "pleach/policy/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

Error refuse(const std::string& policy, std::string_view why) {
  return {ErrorCode::kUnsupported, fmt::format("policy {} {}", policy, why)};
}

Status check_settles(const PolicyDescriptor& policy, const PolicyNeeds& needs) {
  if (!policy.settles) {
    return refuse(policy.name, "never settles: it follows a clock that knows of no iterations");
  }
  if (needs.frees_parameters) {
    return refuse(policy.name, "frees parameters, which a settled plan cannot");
  }
  if (needs.defers_weight_gradients ||
      std::ranges::any_of(needs.exchange_parts, [](int32_t parts) { return parts > 1; })) {
    return refuse(policy.name, "cuts exchanges and moves computation, which a settled plan cannot");
  }
  return ok();
}

uint64_t hash_of(const TrainingProfile& profile, const SettledPlan& plan) {
  const ParameterSpace space(profile);
  Fingerprint print;
  print.add(profile.rank_count);
  for (const PolicyLayer& layer : profile.layers) {
    print.add(count_of(layer.tensor_bytes));
    for (const int64_t bytes : layer.tensor_bytes) {
      print.add(bytes);
    }
  }
  for (int32_t atom = 0; atom < space.atom_count(); ++atom) {
    print.add(space.atoms(atom, atom + 1).size());
  }
  print.add(plan.step_at_once ? 1 : 0);
  for (const AtomCollective& one : plan.collectives) {
    print.add(to_text(one.kind));
    print.add(one.first);
    print.add(one.end);
  }
  return print.value();
}

// Which collectives have had an atom so far.
struct AtomTravels {
  const AtomCollective* reduction = nullptr;
  const AtomCollective* distribution = nullptr;
};

bool are_halves(CollectiveKind first, CollectiveKind second) {
  return (first == CollectiveKind::kReduceScatter && second == CollectiveKind::kAllGather) ||
         (first == CollectiveKind::kReduce && second == CollectiveKind::kBroadcast);
}

Status travel(const AtomCollective& one, int32_t atom, AtomTravels& travels) {
  const auto illegal = [&](std::string_view why) {
    return invalid(fmt::format("{} of atoms {} to {}: atom {} {}", to_text(one.kind), one.first,
                               one.end, atom, why));
  };
  if (reduces(one.kind)) {
    if (travels.reduction != nullptr) {
      return illegal("is reduced already");
    }
    travels.reduction = &one;
  } else if (travels.reduction == nullptr) {
    return illegal("is not reduced before");
  } else if (!are_halves(travels.reduction->kind, one.kind)) {
    return illegal(fmt::format("has been in {}", to_text(travels.reduction->kind)));
  } else if (travels.distribution != nullptr) {
    return illegal("is distributed already");
  }
  if (distributes(one.kind)) {
    travels.distribution = &one;
  }
  return ok();
}

}  // namespace

Status check_plan(const ParameterSpace& space, std::span<const AtomCollective> plan) {
  std::vector<AtomTravels> travels(at(space.atom_count()));
  for (const AtomCollective& one : plan) {
    if (!reduces(one.kind) && one.kind != CollectiveKind::kAllGather &&
        one.kind != CollectiveKind::kBroadcast) {
      return invalid(fmt::format("{} in a plan of gradients", to_text(one.kind)));
    }
    if (one.first < 0 || one.first >= one.end || one.end > space.atom_count()) {
      return invalid(fmt::format("{} of atoms {} to {}, of {}", to_text(one.kind), one.first,
                                 one.end, space.atom_count()));
    }
    for (int32_t atom = one.first; atom < one.end; ++atom) {
      PLEACH_TRY(travel(one, atom, travels[at(atom)]));
    }
  }
  for (int32_t atom = 0; atom < space.atom_count(); ++atom) {
    if (travels[at(atom)].distribution == nullptr) {
      return invalid(
          fmt::format("the plan leaves atom {} {}", atom,
                      travels[at(atom)].reduction == nullptr ? "unreduced" : "undistributed"));
    }
  }
  return ok();
}

Plan plan_of_bytes(const ParameterSpace& space, std::span<const AtomCollective> plan) {
  Plan by_bytes;
  for (const AtomCollective& one : plan) {
    by_bytes.push_back({one.kind, space.atoms(one.first, one.end)});
  }
  return by_bytes;
}

Result<SettledPlan> settle_plan(std::string_view spec, const TrainingProfile& profile,
                                const CostModel& costs, const SettleOptions& options) {
  PLEACH_ASSIGN(descriptor, policies().entry_of(spec));
  PLEACH_ASSIGN(policy,
                create_policy(spec, {.profile = profile, .costs = costs, .seed = options.seed}));
  const PolicyNeeds needs = policy->needs();
  PLEACH_TRY(check_settles(*descriptor, needs));
  PLEACH_ASSIGN(rehearsal,
                rehearse(profile, costs, *policy,
                         {.most_iterations = options.most_iterations, .keep_log = true}));
  if (!rehearsal.steady) {
    return refuse(descriptor->name,
                  fmt::format("has not settled within {} iterations", options.most_iterations));
  }
  SettledPlan plan;
  plan.step_at_once = needs.step_at_once;
  plan.iteration_ps = rehearsal.iteration_ps;
  const ParameterSpace space(profile);
  for (const HostedCollective& one : rehearsal.log) {
    // Of the last iteration all_gathers are still to come.
    if (one.iteration == rehearsal.iterations - 2) {
      plan.collectives.push_back({.kind = one.what.kind,
                                  .first = space.atom_at(one.what.range.begin),
                                  .end = space.atom_at(one.what.range.end)});
    }
  }
  PLEACH_TRY(check_plan(space, plan.collectives));
  plan.hash = hash_of(profile, plan);
  return plan;
}

}  // namespace pleach
