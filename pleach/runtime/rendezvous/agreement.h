// Agreement: what the ranks of a group settle over the store, before and between runs.
//
// Every function is collective: all ranks call it, with the same name, and none returns before all
// have come. A name is good for one call; its keys are removed when nobody needs them any more.
// Every rank says in the store that it has come before it waits for another, so that whoever gives
// up first knows who has not.
//   errors  kTimeout naming who did not come within the deadline, or, where all came, who did not
//           go on within another; the epoch's failure; kIo
//   source  docs/architecture.md, "Agreement"
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

struct GroupOfRanks {
  Store& store;
  Rank rank;  // in the group
  int32_t rank_count = 1;
  Duration deadline;                     // of every wait
  std::span<const Rank> job_ranks = {};  // by rank in the group; empty: the same

  // The job's number of one of its ranks: what errors name.
  int32_t name_of(int64_t member) const {
    return job_ranks.empty() ? static_cast<int32_t>(member)
                             : job_ranks[static_cast<std::size_t>(member)].value;
  }
};

// All ranks enter before any leaves.
Status barrier(const GroupOfRanks& group, const std::string& name);

// Rank 0 makes a value of what all ranks say, by rank, or refuses to; all ranks get the same.
using Make = std::function<Result<std::string>(std::vector<std::string> words)>;
Result<Result<std::string>> settle(const GroupOfRanks& group, const std::string& name,
                                   std::string word, const Make& make);

// Rank 0 gets the values of all, by rank; the others get nothing.
Result<std::vector<std::string>> gather(const GroupOfRanks& group, const std::string& name,
                                        std::string value);

// All get the values of all, by rank, and have taken them before any goes on.
//   errors  as above; and those of `take`, which the caller has to make a failure of all
using Take = std::function<Status(const std::vector<std::string>& values)>;
Status exchange(const GroupOfRanks& group, const std::string& name, std::string value,
                const Take& take);

// Rank 0 produces a value, or refuses to, and waits for nobody before; all ranks get the same, a
// value in pieces.
Result<Result<std::string>> broadcast(const GroupOfRanks& group, const std::string& name,
                                      const std::function<Result<std::string>()>& produce);

// Compares what all ranks say with what rank 0 says, word by word.
//   words    with single spaces between them; or why this rank refuses
//   differs  a format of the refusal, of who differs, what it says, what rank 0 says, and who that
//            is: "rank {} holds {}, rank 0 holds {}"
//   returns  the same on all ranks: ok; or the refusal of the lowest rank that refuses or differs,
//            its own or kInvalidArgument
Result<Status> agree(const GroupOfRanks& group, const std::string& name,
                     const Result<std::string>& words, std::string_view differs);

// The same of one rank, where everybody knows what all say.
//   returns  kInvalidArgument: it differs
Status compare(const GroupOfRanks& group, Rank rank, std::string_view words, std::string_view first,
               std::string_view differs);

}  // namespace pleach
