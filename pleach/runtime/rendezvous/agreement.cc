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

// Under which key a rank says that it has come.
std::string here_key(const std::string& name, int64_t rank) {
  return key_of(name, "here", rank);
}

// Of the first so many ranks of the group, those that have not come, by their numbers in the job.
Result<std::vector<int32_t>> absent(const GroupOfRanks& group, const std::string& name,
                                    int32_t count) {
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < count; ++rank) {
    const Result<std::string> here = group.store.get(here_key(name, rank), Duration::zero());
    if (!here && here.error().code != ErrorCode::kTimeout) {
      return here.error();
    }
    if (!here) {
      missing.push_back(group.name_of(rank));
    }
  }
  return missing;
}

// What is set once the first so many ranks have come.
struct Awaited {
  const std::string& name;  // of what they come to
  int32_t count = 0;
  std::string key;
  std::string_view setter;  // who goes on when they have come
  TimePoint until;          // they may come
};

// Fails if a rank has left the job that did not come before: nothing is waited for any more.
Status check_departed(const GroupOfRanks& group, const Awaited& what) {
  const std::vector<Departure> departures = group.store.epoch()->departures(0);
  if (departures.empty()) {
    return ok();
  }
  PLEACH_TRY(
      group.store.epoch()->check());  // a rank that leaves because of a failure tells it first
  PLEACH_ASSIGN(missing, absent(group, what.name, what.count));
  for (const Departure& left : departures) {
    if (std::ranges::find(missing, left.rank.value) != missing.end()) {
      return Error{ErrorCode::kPeerLost, fmt::format("rank {} has left the job", left.rank.value)};
    }
  }
  return ok();
}

// The value; kTimeout: not within that time, and all ranks that have not come are there.
Result<std::string> get_while_all_are_there(const GroupOfRanks& group, const Awaited& what,
                                            TimePoint until) {
  const Clock& clock = group.store.clock();
  while (true) {
    const std::size_t departures = group.store.epoch()->departure_count();
    PLEACH_TRY(check_departed(group, what));
    const Duration left = std::max<Duration>(until - clock.now(), Duration::zero());
    Result<std::string> value = group.store.get_until_departure(what.key, left, departures);
    if (value || value.error().code != ErrorCode::kTimeout || clock.now() >= until ||
        group.store.epoch()->departure_count() == departures) {
      return value;
    }
  }
}

// Waits for it: for those ranks first, and then for who goes on.
Result<std::string> wait_for(const GroupOfRanks& group, const Awaited& what) {
  const Clock& clock = group.store.clock();
  const double seconds = seconds_of(group.deadline);
  TimePoint until = what.until;
  for (bool all_came = false;; all_came = true) {
    Result<std::string> value = get_while_all_are_there(group, what, until);
    if (value || value.error().code != ErrorCode::kTimeout) {
      return value;
    }
    PLEACH_ASSIGN(missing, absent(group, what.name, what.count));
    if (!missing.empty()) {
      return Error{
          ErrorCode::kTimeout,
          fmt::format("rank{} {} did not come within {:.3g} s{}", missing.size() == 1 ? "" : "s",
                      fmt::join(missing, ", "), seconds, refusals(group, missing))};
    }
    if (all_came) {
      return Error{ErrorCode::kTimeout,
                   fmt::format("{} came, and did not go on within {:.3g} s", what.setter, seconds)};
    }
    until = clock.now() + group.deadline;
  }
}

// A refusal as text: "!CODE message"; a value: "=value".
std::string write(const Result<std::string>& value) {
  return value ? "=" + *value
               : fmt::format("!{} {}", write_code(value.error().code), value.error().message);
}

Result<std::string> read(std::string text) {
  if (text.starts_with('=')) {
    text.erase(0, 1);
    return text;
  }
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view code = std::string_view(text).substr(std::min<std::size_t>(1, space));
  PLEACH_ASSIGN(known, read_code(code.substr(0, code.find(' '))));
  return Error{known, text.substr(std::min(space + 1, text.size()))};
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

// What a rank does with the value before any goes on.
using Use = std::function<Status(std::string_view)>;

// All get what rank 0 makes, which says before that it has come.
//   count  of the ranks that have to come before it makes anything
Result<Result<std::string>> spread(const GroupOfRanks& group, const std::string& name,
                                   int32_t count,
                                   const std::function<Result<std::string>()>& produce,
                                   const Use& use = {}) {
  const std::string count_key = name + "/count";
  std::string text;
  if (group.rank.value == 0) {
    text = write(produce());
    int64_t pieces = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
      PLEACH_TRY(group.store.set(key_of(name, "piece", pieces++), text.substr(begin, kPieceBytes)));
    }
    PLEACH_TRY(group.store.set(count_key, std::to_string(pieces)));
  } else {
    const std::string zero = fmt::format("rank {}", group.name_of(0));
    const auto get = [&](const std::string& key) {
      return wait_for(group, {.name = name,
                              .count = count,
                              .key = key,
                              .setter = zero,
                              .until = group.store.clock().now() + group.deadline});
    };
    PLEACH_ASSIGN(count_text, get(count_key));
    PLEACH_ASSIGN(pieces, parse_integer(count_text, "pieces from " + zero, 1, kMaxPieces));
    for (int64_t piece = 0; piece < pieces; ++piece) {
      PLEACH_ASSIGN(bytes, get(key_of(name, "piece", piece)));
      text += bytes;
    }
  }
  Result<std::string> value = read(std::move(text));
  if (use && value) {
    PLEACH_TRY(use(*value));
  }
  PLEACH_TRY(barrier(group, name + ".read"));
  if (group.rank.value == 0) {
    static_cast<void>(group.store.erase(name + "/"));  // all have it, whatever becomes of them now
  }
  return value;
}

// On rank 0 what all say when they come.
Result<std::vector<std::string>> hear_all(const GroupOfRanks& group, const std::string& name) {
  const TimePoint until = group.store.clock().now() + group.deadline;
  std::vector<std::string> words;
  for (int32_t rank = 0; rank < group.rank_count; ++rank) {
    PLEACH_ASSIGN(theirs, wait_for(group, {.name = name,
                                           .count = group.rank_count,
                                           .key = here_key(name, rank),
                                           .setter = "a rank",
                                           .until = until}));
    words.push_back(std::move(theirs));
  }
  return words;
}

Result<Result<std::string>> settle_and_use(const GroupOfRanks& group, const std::string& name,
                                           std::string word, const Make& make, const Use& use) {
  PLEACH_TRY(group.store.set(here_key(name, group.rank.value), std::move(word)));
  std::vector<std::string> words;
  if (group.rank.value == 0) {
    PLEACH_SET(words, hear_all(group, name));
  }
  return spread(
      group, name, group.rank_count, [&] { return make(std::move(words)); }, use);
}

}  // namespace

Status barrier(const GroupOfRanks& group, const std::string& name) {
  PLEACH_TRY(group.store.set(here_key(name, group.rank.value), ""));
  PLEACH_ASSIGN(arrived, group.store.increment(name + "/arrived"));
  const std::string all_key = name + "/all";
  if (arrived == group.rank_count) {
    PLEACH_TRY(group.store.set(all_key, ""));
  } else {
    const Result<std::string> all =
        wait_for(group, {.name = name,
                         .count = group.rank_count,
                         .key = all_key,
                         .setter = "all ranks",
                         .until = group.store.clock().now() + group.deadline});
    // Who saw them all come may have gone on to its end, which is a failure of the next thing.
    if (!all && (!group.store.failure() || !group.store.get(all_key, Duration::zero()))) {
      return all.error();
    }
  }
  // All have entered, whatever becomes of them now.
  const Result<int64_t> left = group.store.increment(name + "/left");
  if (left && *left == group.rank_count) {
    static_cast<void>(group.store.erase(name + "/"));
  }
  return ok();
}

Result<Result<std::string>> settle(const GroupOfRanks& group, const std::string& name,
                                   std::string word, const Make& make) {
  return settle_and_use(group, name, std::move(word), make, {});
}

Result<std::vector<std::string>> gather(const GroupOfRanks& group, const std::string& name,
                                        std::string value) {
  std::vector<std::string> values;
  const auto keep = [&](std::vector<std::string> all) -> Result<std::string> {
    values = std::move(all);
    return std::string();
  };
  PLEACH_ASSIGN(done, settle(group, name, std::move(value), keep));
  PLEACH_TRY(done);
  return values;
}

Status exchange(const GroupOfRanks& group, const std::string& name, std::string value,
                const Take& take) {
  const auto put_together = [](const std::vector<std::string>& all) -> Result<std::string> {
    std::string text;
    for (const std::string& one : all) {
      text += fmt::format("{} {}", one.size(), one);
    }
    return text;
  };
  const auto take_apart = [&](std::string_view rest) -> Status {
    std::vector<std::string> values;
    while (!rest.empty()) {
      const std::size_t space = std::min(rest.find(' '), rest.size() - 1);
      PLEACH_ASSIGN(size, parse_integer(rest.substr(0, space), "bytes of a rank's value", 0,
                                        std::ssize(rest) - static_cast<int64_t>(space) - 1));
      values.emplace_back(rest.substr(space + 1, static_cast<std::size_t>(size)));
      rest.remove_prefix(space + 1 + static_cast<std::size_t>(size));
    }
    if (std::ssize(values) != group.rank_count) {
      return Error{ErrorCode::kIo, fmt::format("rank {} told the values of {} ranks, not of {}",
                                               group.name_of(0), values.size(), group.rank_count)};
    }
    return take(values);
  };
  PLEACH_ASSIGN(done, settle_and_use(group, name, std::move(value), put_together, take_apart));
  return done ? ok() : Status(done.error());
}

Result<Result<std::string>> broadcast(const GroupOfRanks& group, const std::string& name,
                                      const std::function<Result<std::string>()>& produce) {
  if (group.rank.value == 0) {
    PLEACH_TRY(group.store.set(here_key(name, 0), ""));
  }
  return spread(group, name, 1, produce);
}

Result<Status> agree(const GroupOfRanks& group, const std::string& name,
                     const Result<std::string>& words, std::string_view differs) {
  const auto judge = [&](const std::vector<std::string>& all) -> Result<std::string> {
    for (int32_t rank = 0; rank < std::ssize(all); ++rank) {
      PLEACH_ASSIGN(theirs, read(all[static_cast<std::size_t>(rank)]));
      PLEACH_TRY(compare(group, Rank{rank}, theirs, *words, differs));
    }
    return std::string();
  };
  PLEACH_ASSIGN(verdict, settle(group, name, write(words), judge));
  return verdict ? ok() : Status(verdict.error());
}

Status compare(const GroupOfRanks& group, Rank rank, std::string_view words, std::string_view first,
               std::string_view differs) {
  const auto what = difference(words, first);
  return what ? invalid(fmt::format(fmt::runtime(differs), group.name_of(rank.value), what->first,
                                    what->second, group.name_of(0)))
              : ok();
}

}  // namespace pleach
