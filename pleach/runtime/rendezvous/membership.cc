#include "pleach/runtime/rendezvous/membership.h"

#include <fmt/format.h>

#include "pleach/base/text.h"
#include "pleach/runtime/rendezvous/store_protocol.h"

namespace pleach {
bool Membership::has(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() &&
         (found->second == State::kHere || found->second == State::kHasAsked);
}

bool Membership::may_join(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? epoch_ == 0 : found->second != State::kOut;
}

bool Membership::join(Rank rank) {
  if (!may_join(rank)) {
    return false;
  }
  ranks_[rank] = State::kHere;
  return true;
}

void Membership::leave(Rank rank) {
  if (has(rank)) {
    ranks_[rank] = State::kGone;
  }
}

void Membership::lose(Rank rank) {
  ranks_[rank] = State::kOut;
}

bool Membership::fail(int64_t epoch, const Failure& failure) {
  if (epoch != epoch_ || failure_) {
    return false;
  }
  failure_ = failure;
  return true;
}

Result<bool> Membership::fail_scope(int64_t epoch, const std::string& scope, Rank teller,
                                    int64_t bytes) {
  if (epoch != epoch_ || failure_ || failed_scopes_.contains(scope)) {
    return false;
  }
  int64_t& sum = scope_bytes_[teller];
  if (bytes > kMaxStoreScopesBytes - sum) {
    return Error{ErrorCode::kIo,
                 fmt::format("failures of scopes of more than {} MiB", kMaxStoreScopesBytes >> 20)};
  }
  sum += bytes;
  failed_scopes_.insert(scope);
  return true;
}

bool Membership::ask(Rank rank, int64_t epoch) {
  if (!has(rank) || epoch != epoch_ || !failure_) {
    return false;
  }
  ranks_[rank] = State::kHasAsked;
  return true;
}

bool Membership::advance() {
  if (!failure_ || members().empty() || !missing().empty()) {
    return false;
  }
  ++epoch_;
  failure_.reset();
  failed_scopes_.clear();
  scope_bytes_.clear();
  std::erase_if(ranks_, [](const auto& entry) { return entry.second != State::kHasAsked; });
  give_up();
  return true;
}

std::vector<Rank> Membership::members() const {
  std::vector<Rank> members;
  for (const auto& [rank, state] : ranks_) {
    if (has(rank)) {
      members.push_back(rank);
    }
  }
  return members;
}

std::vector<Rank> Membership::missing() const {
  std::vector<Rank> missing;
  for (const auto& [rank, state] : ranks_) {
    if (state == State::kHere) {
      missing.push_back(rank);
    }
  }
  return missing;
}

void Membership::give_up() {
  for (auto& [rank, state] : ranks_) {
    state = state == State::kHasAsked ? State::kHere : state;
  }
}

std::string did_not_come(const std::vector<Rank>& ranks) {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const Rank rank : ranks) {
    names.push_back(std::to_string(rank.value));
  }
  return fmt::format("rank{} {} did not come to the recovery", names.size() == 1 ? "" : "s",
                     join(names, ", "));
}

}  // namespace pleach
