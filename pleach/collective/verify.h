// Verifier: proves that every legal interleaving of a schedule gives the collective's result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pleach/collective/schedule.h"
#include "pleach/topology/switch_pass.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct Verification {
  bool correct = false;
  // On each link the slots (step mod period) are distinct, and no switch has more in a slot than it
  // carries at once. On a topology missing routes are the shortest ones; without one, false when
  // routes are missing.
  bool contention_free = false;
  // What of a slot some switch cannot carry at once, a line each; at most 20.
  std::vector<std::string> switch_conflicts = {};
  // Whether all ranks end with the same expression, in the order of its operands too, of every
  // chunk they share.
  bool bitwise_replicated = false;
  std::vector<std::string> violations = {};  // form first, then values by chunk; at most 20
};

// Checks form, then runs one two-phase symbolic pass per chunk (per step: all reads, then the
// commits in ascending source rank), which stands for every interleaving; then counts link slots.
// A symmetric schedule is proved by its representative chunks, the topology's automorphisms and
// the slot counts per link class.
//   topology  may be null: then routes and switches are taken on trust, and the links of a
//   symmetric
//             schedule are not counted
//   judge     what the topology's switches carry at once; empty: whatever enters
//   cost      O(transfers log transfers), and per chunk O(transfers + ranks · distinct results),
//             where neighbours that all transfers treat alike count as one chunk; a schedule with
//             many faults is left after the first of them
//   threads   safe: no shared state
//   source    docs/architecture.md, "The schedule"
Verification verify(const Schedule& schedule, const Topology* topology,
                    const SwitchJudge& judge = {});

// Whether the schedule was planned for just this topology; none where it does not say for which.
std::optional<bool> is_planned_for(const Schedule& schedule, const Topology& topology);

// What an error says of a schedule that is not correct, and whether that may be because it was
// planned for another topology.
std::string first_violation(const Verification& verification, const Schedule& schedule,
                            const Topology* topology);

}  // namespace pleach
