#include "pleach/runtime/rendezvous/store.h"

#include <fmt/format.h>

#include "pleach/base/text.h"

namespace pleach {

Failure failure_of(const Error& error, Rank rank, std::string message) {
  const bool is_late = error.code == ErrorCode::kTimeout;
  return {rank, std::move(message), is_late ? ErrorCode::kPeerLost : error.code};
}

Error fail_epoch(Store& store, const Epoch& epoch, const Failure& failure) {
  store.fail(epoch, failure);
  const Status ended = epoch.check();
  return ended ? Error{failure.code, failure.message} : ended.error();
}

std::string refusal_key(Rank rank) {
  return fmt::format("refused/{}", rank.value);
}

std::string failure_text(Rank rank, std::string_view where, std::string_view cause) {
  return fmt::format("rank {}, {}: {}", rank.value, where, cause);
}

std::string said_by(Rank rank, std::string_view message) {
  const std::string own = fmt::format("rank {}, ", rank.value);
  // What other ranks and programs have said may be in it.
  return one_line(fmt::format("rank {}: {}", rank.value,
                              message.starts_with(own) ? message.substr(own.size()) : message));
}

}  // namespace pleach
