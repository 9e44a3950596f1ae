#include "pleach/runtime/rendezvous/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr int64_t kMaxPieces = 4096;

std::string key_of(const std::string& name, std::string_view what, int64_t number) {
  return fmt::format("{}/{}/{}", name, what, number);
}

// Why the store has let none of those ranks in, as far as it knows.
std::string refusals(const GroupOfRanks& group, std::span<const int32_t> missing) {
  std::string text;
  for (const int32_t rank : missing) {
    if (const auto why = group.store.get(refusal_key(Rank{rank}), Duration::zero())) {
      text += "; " + *why;
    }
  }
  return text;
}

// Waits for what another rank sets.
Result<std::string> wait_for(const GroupOfRanks& group, const std::string& key, Rank setter,
                             TimePoint until) {
  const Duration left = std::max<Duration>(until - group.store.clock().now(), Duration::zero());
  Result<std::string> value = group.store.get(key, left);
  if (!value && value.error().code == ErrorCode::kTimeout) {
    const int32_t name = group.name_of(setter.value);
    return Error{ErrorCode::kTimeout,
                 fmt::format("rank {} did not come within {:.3g} s{}", name,
                             seconds_of(group.deadline), refusals(group, std::span(&name, 1)))};
  }
  return value;
}

// Why a barrier did not end: the ranks that have not come.
Error explain(const GroupOfRanks& group, const std::string& name) {
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < group.rank_count; ++rank) {
    const Result<std::string> here = group.store.get(key_of(name, "here", rank), Duration::zero());
    if (!here && here.error().code == ErrorCode::kTimeout) {
      missing.push_back(group.name_of(rank));
    } else if (!here) {
      return here.error();
    }
  }
  const double seconds = seconds_of(group.deadline);
  if (missing.empty()) {
    return Error{ErrorCode::kTimeout,
                 fmt::format("barrier {} did not end within {:.3g} s", quoted(name), seconds)};
  }
  return Error{ErrorCode::kTimeout,
               fmt::format("barrier {}: rank{} {} did not come within {:.3g} s{}", quoted(name),
                           missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), seconds,
                           refusals(group, missing))};
}

// A refusal as text: "!CODE message"; a value: "=value".
std::string write(const Result<std::string>& value) {
  return value ? "=" + *value
               : fmt::format("!{} {}", static_cast<int>(value.error().code), value.error().message);
}

Result<std::string> read(std::string text) {
  if (text.starts_with('=')) {
    text.erase(0, 1);
    return text;
  }
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view code = std::string_view(text).substr(std::min<std::size_t>(1, space));
  PLEACH_ASSIGN(number, parse_integer(code.substr(0, code.find(' ')), "error code of a rank", 0,
                                      static_cast<int>(ErrorCode::kUnsupported)));
  return Error{static_cast<ErrorCode>(number), text.substr(std::min(space + 1, text.size()))};
}

// The first words that differ, if any.
std::optional<std::pair<std::string, std::string>> difference(std::string_view left,
                                                              std::string_view right) {
  const std::vector<std::string_view> words = split(left, ' '), others = split(right, ' ');
  for (std::size_t i = 0; i < std::max(words.size(), others.size()); ++i) {
    const std::string_view word = i < words.size() ? words[i] : "nothing";
    const std::string_view other = i < others.size() ? others[i] : "nothing";
    if (word != other) {
      return std::pair(std::string(word), std::string(other));
    }
  }
  return std::nullopt;
}

}  // namespace

Status barrier(const GroupOfRanks& group, const std::string& name) {
  PLEACH_TRY(group.store.set(key_of(name, "here", group.rank.value), ""));
  PLEACH_ASSIGN(arrived, group.store.increment(name + "/arrived"));
  const std::string all_key = name + "/all";
  if (arrived == group.rank_count) {
    PLEACH_TRY(group.store.set(all_key, ""));
  } else if (const Result<std::string> all = group.store.get(all_key, group.deadline); !all) {
    return all.error().code == ErrorCode::kTimeout ? explain(group, name) : all.error();
  }
  PLEACH_ASSIGN(left, group.store.increment(name + "/left"));
  return left == group.rank_count ? group.store.erase(name + "/") : ok();
}

Result<std::vector<std::string>> gather(const GroupOfRanks& group, const std::string& name,
                                        std::string value) {
  PLEACH_TRY(group.store.set(key_of(name, "rank", group.rank.value), std::move(value)));
  std::vector<std::string> values;
  if (group.rank.value != 0) {
    return values;
  }
  const TimePoint until = group.store.clock().now() + group.deadline;
  for (int32_t rank = 0; rank < group.rank_count; ++rank) {
    PLEACH_ASSIGN(theirs, wait_for(group, key_of(name, "rank", rank), Rank{rank}, until));
    values.push_back(std::move(theirs));
  }
  PLEACH_TRY(group.store.erase(name + "/"));
  return values;
}

Result<Result<std::string>> broadcast(const GroupOfRanks& group, const std::string& name,
                                      const std::function<Result<std::string>()>& produce) {
  const std::string count_key = name + "/count";
  std::string text;
  if (group.rank.value == 0) {
    text = write(produce());
    int64_t count = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
      PLEACH_TRY(group.store.set(key_of(name, "piece", count++), text.substr(begin, kPieceBytes)));
    }
    PLEACH_TRY(group.store.set(count_key, std::to_string(count)));
  } else {
    const TimePoint until = group.store.clock().now() + group.deadline;
    PLEACH_ASSIGN(count_text, wait_for(group, count_key, Rank{0}, until));
    PLEACH_ASSIGN(count,
                  parse_integer(count_text, fmt::format("pieces from rank {}", group.name_of(0)), 1,
                                kMaxPieces));
    for (int64_t piece = 0; piece < count; ++piece) {
      PLEACH_ASSIGN(bytes, wait_for(group, key_of(name, "piece", piece), Rank{0},
                                    group.store.clock().now() + group.deadline));
      text += bytes;
    }
  }
  PLEACH_TRY(barrier(group, name + ".read"));
  if (group.rank.value == 0) {
    PLEACH_TRY(group.store.erase(name + "/"));
  }
  return read(std::move(text));
}

Result<Status> agree(const GroupOfRanks& group, const std::string& name,
                     const Result<std::string>& words, std::string_view differs) {
  PLEACH_ASSIGN(all, gather(group, name + "/words", write(words)));
  const auto judge = [&]() -> Result<std::string> {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      PLEACH_ASSIGN(theirs, read(all[rank]));
      if (const auto what = difference(theirs, *words)) {
        return invalid(fmt::format(fmt::runtime(differs), group.name_of(static_cast<int64_t>(rank)),
                                   what->first, what->second, group.name_of(0)));
      }
    }
    return std::string();
  };
  PLEACH_ASSIGN(verdict, broadcast(group, name, judge));
  return verdict ? ok() : Status(verdict.error());
}

}  // namespace pleach
