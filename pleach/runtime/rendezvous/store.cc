#include "pleach/runtime/rendezvous/store.h"

#include <fmt/format.h>

#include <utility>

#include "pleach/base/text.h"

namespace pleach {

Failure failure_of(Error error, Rank rank) {
  const bool is_late = error.code == ErrorCode::kTimeout;
  return {rank, std::move(error.message), is_late ? ErrorCode::kPeerLost : error.code};
}

Failure named_failure(Error error, Rank rank) {
  constexpr std::string_view kRank = "rank ";
  const std::string_view text = error.message;
  const bool names_a_rank = text.starts_with(kRank) && text.size() > kRank.size() &&
                            text[kRank.size()] >= '0' && text[kRank.size()] <= '9';
  if (!names_a_rank) {
    error.message = fmt::format("rank {}: {}", rank.value, text);
  }
  return failure_of(std::move(error), rank);
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
  const std::string own = fmt::format("rank {}", rank.value);
  for (const std::string& prefix : {own + ", ", own + ": "}) {
    if (message.starts_with(prefix)) {
      message.remove_prefix(prefix.size());
      break;
    }
  }
  // What other ranks and programs have said may be in it.
  return one_line(fmt::format("{}: {}", own, message));
}

}  // namespace pleach
