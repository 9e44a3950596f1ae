#include "pleach/runtime/rendezvous/store.h"

#include <fmt/format.h>

#include <utility>

#include "pleach/base/text.h"

namespace pleach {

Failure failure_of(Error error, Rank rank) {
  const bool is_late = error.code == ErrorCode::kTimeout;
  return {rank, std::move(error.message), is_late ? ErrorCode::kPeerLost : error.code};
}

std::string write_code(ErrorCode code) {
  return std::to_string(static_cast<int>(code));
}

Result<ErrorCode> read_code(std::string_view text) {
  PLEACH_ASSIGN(number, parse_integer(text, "error code of a rank", 0,
                                      static_cast<int>(ErrorCode::kUnsupported)));
  return static_cast<ErrorCode>(number);
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
