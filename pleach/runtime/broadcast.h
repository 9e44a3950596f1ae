// Broadcast and agreement over the store: for the little that ranks settle before they run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "pleach/base/result.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

struct GroupOfRanks {
  Store& store;
  Rank rank;
  int32_t rank_count = 1;
  Duration deadline;  // of every wait
};

// What rank 0 gave to all: a value or its refusal.
struct Shared {
  std::string value;
  std::optional<Error> refusal;
};

// Collective: rank 0 produces a value, all ranks get it, in pieces. `name` is good for one call;
// its keys are removed when all have read. Errors: kTimeout naming who did not come, kPeerLost.
Result<Shared> broadcast(const GroupOfRanks& group, const std::string& name,
                         const std::function<Result<std::string>()>& produce);

// Collective: compares the verdicts of all ranks. Returns nothing when they are equal and nobody
// refuses, else the same refusal on all ranks, naming the lowest rank that refuses or differs.
// Errors: as broadcast.
Result<std::optional<Error>> agree(const GroupOfRanks& group, const std::string& name,
                                   const std::string& verdict, const std::optional<Error>& refusal);

}  // namespace pleach
