// Membership: which ranks take part in a job's present epoch, and who of them wants the next.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pleach/runtime/rendezvous/epoch.h"

namespace pleach {

// The rule by which a store keeps epochs. A failure ends the present one. The next begins at the
// moment when every rank that takes part has asked for it since, and is of those; nobody is added.
// Not thread safe; knows no clock.
//   source  docs/architecture.md, "Epochs"
class Membership {
 public:
  int64_t epoch() const { return epoch_; }
  const std::optional<Failure>& failure() const { return failure_; }
  bool has(Rank rank) const;

  // A rank has come. False: it may not: it was lost, or the job has gone on without it.
  bool may_join(Rank rank) const;
  bool join(Rank rank);
  // A rank has gone, by its own will; it may come again while the epoch lasts.
  void leave(Rank rank);
  // A rank is lost, for good; whoever still speaks for it is not heard.
  void lose(Rank rank);
  // False: it is no news: that epoch has failed already, or is over.
  bool fail(int64_t epoch, const Failure& failure);
  // The same of a scope of that epoch, whose first failure it then is; that rank tells it.
  //   bytes   what it costs to keep
  //   errors  kIo: in this epoch the rank has told too many
  Result<bool> fail_scope(int64_t epoch, const std::string& scope, Rank teller, int64_t bytes);
  // A rank wants to go on after the failure of that epoch. False: it has no say, or nothing failed.
  bool ask(Rank rank, int64_t epoch);
  // Begins the next epoch if all want it. False: they do not, or nobody does.
  bool advance();
  // Who takes part, ascending; and who of them has not asked.
  std::vector<Rank> members() const;
  std::vector<Rank> missing() const;
  // Nobody has asked: those who had do not wait any more.
  void give_up();

 private:
  enum class State : uint8_t { kHere, kHasAsked, kGone, kOut };

  int64_t epoch_ = 0;
  std::optional<Failure> failure_;
  std::map<Rank, State> ranks_;
  std::set<std::string> failed_scopes_;
  std::map<Rank, int64_t> scope_bytes_;  // by who has told them
};

// "ranks 2, 5 did not come to the recovery".
std::string did_not_come(const std::vector<Rank>& ranks);

}  // namespace pleach
