#include "pleach/runtime/broadcast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr int64_t kMaxPieces = 4096;

std::string piece_key(const std::string& name, int64_t piece) {
  return fmt::format("{}/piece/{}", name, piece);
}

// A refusal as text: "!CODE message"; a value: "=value".
std::string write_shared(const Result<std::string>& value) {
  return value ? "=" + *value
               : fmt::format("!{} {}", static_cast<int>(value.error().code), value.error().message);
}

Result<Shared> read_shared(std::string text) {
  if (text.starts_with('=')) {
    text.erase(0, 1);
    return Shared{std::move(text), std::nullopt};
  }
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view code = std::string_view(text).substr(std::min<std::size_t>(1, space));
  PLEACH_ASSIGN(number, parse_integer(code.substr(0, code.find(' ')), "error code of rank 0", 0,
                                      static_cast<int>(ErrorCode::kUnsupported)));
  return Shared{
      "", Error{static_cast<ErrorCode>(number), text.substr(std::min(space + 1, text.size()))}};
}

// Waits for what another rank sets.
Result<std::string> wait_for(const GroupOfRanks& group, const std::string& key, int32_t from) {
  Result<std::string> value = group.store.get(key, group.deadline);
  if (!value && value.error().code == ErrorCode::kTimeout) {
    const double seconds = std::chrono::duration<double>(group.deadline).count();
    return Error{ErrorCode::kTimeout,
                 fmt::format("rank {} did not come within {:.3g} s", from, seconds)};
  }
  return value;
}

}  // namespace

Result<Shared> broadcast(const GroupOfRanks& group, const std::string& name,
                         const std::function<Result<std::string>()>& produce) {
  std::string text;
  if (group.rank.value == 0) {
    text = write_shared(produce());
    int64_t count = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
      PLEACH_TRY(group.store.set(piece_key(name, count++), text.substr(begin, kPieceBytes)));
    }
    PLEACH_TRY(group.store.set(name + "/count", std::to_string(count)));
  } else {
    PLEACH_ASSIGN(count_text, wait_for(group, name + "/count", 0));
    PLEACH_ASSIGN(count, parse_integer(count_text, "pieces from rank 0", 1, kMaxPieces));
    for (int64_t piece = 0; piece < count; ++piece) {
      PLEACH_ASSIGN(bytes, wait_for(group, piece_key(name, piece), 0));
      text += bytes;
    }
  }
  PLEACH_TRY(barrier(group.store, name + ".read", group.rank, group.rank_count, group.deadline));
  if (group.rank.value == 0) {
    PLEACH_TRY(group.store.erase(name + "/"));
  }
  return read_shared(std::move(text));
}

Result<std::optional<Error>> agree(const GroupOfRanks& group, const std::string& name,
                                   const std::string& verdict,
                                   const std::optional<Error>& refusal) {
  const auto key = [&](int32_t rank) { return fmt::format("{}/rank/{}", name, rank); };
  PLEACH_TRY(group.store.set(key(group.rank.value),
                             write_shared(refusal ? Result<std::string>(*refusal) : verdict)));
  std::optional<Error> cause;
  if (group.rank.value == 0) {
    for (int32_t rank = 0; rank < group.rank_count; ++rank) {
      PLEACH_ASSIGN(text, wait_for(group, key(rank), rank));
      PLEACH_ASSIGN(theirs, read_shared(text));
      if (!cause && theirs.refusal) {
        cause = theirs.refusal;
      } else if (!cause && theirs.value != verdict) {
        cause =
            invalid(fmt::format("rank {} holds {}, rank 0 holds {}", rank, theirs.value, verdict));
      }
    }
  }
  const auto produce = [&] {
    return cause ? Result<std::string>(*cause) : Result<std::string>(std::string());
  };
  PLEACH_ASSIGN(outcome, broadcast(group, name, produce));
  return std::move(outcome.refusal);
}

}  // namespace pleach
