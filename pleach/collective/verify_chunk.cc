#include "pleach/collective/verify_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/placement.h"

namespace pleach {
namespace {

// The ranks that end with the chunk: [begin, end).
struct RankRange {
  int32_t begin = 0;
  int32_t end = 0;
};

RankRange outputs(const Schedule& schedule, int32_t chunk) {
  const std::optional<Rank> rank = chunk_destination(schedule, chunk);
  return rank ? RankRange{rank->value, rank->value + 1} : RankRange{0, schedule.rank_count()};
}

}  // namespace

ChunkPass::ChunkPass(const Schedule& schedule, const Order& order)
    : schedule_(schedule),
      order_(order),
      rank_count_(schedule.rank_count()),
      slots_(at(rank_count_), kEmpty),
      counted_(at(rank_count_)) {}

bool ChunkPass::run(int32_t chunk, std::span<const int32_t> streams, std::size_t limit,
                    std::vector<std::string>& violations) {
  start(chunk);
  while (!streams.empty()) {
    const int32_t step = order_.stream(streams.front()).step;
    std::size_t count = 1;
    while (count < streams.size() && order_.stream(streams[count]).step == step) {
      ++count;
    }
    std::string violation = read_all(streams.first(count));
    if (violation.empty()) {
      violation = commit_all();
    }
    if (!violation.empty()) {  // what follows from it would be noise
      if (violations.size() < limit) {
        violations.push_back(std::move(violation));
      }
      return false;
    }
    streams = streams.subspan(count);
  }
  return check_outputs(chunk, limit, violations);
}

void ChunkPass::start(int32_t chunk) {
  for (const int32_t rank : touched_) {
    slots_[at(rank)] = kEmpty;
  }
  touched_.clear();
  sums_.clear();
  known_sums_.clear();
  if (const std::optional<Rank> source = chunk_source(schedule_, chunk)) {
    store(source->value, source->value);
    return;
  }
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    store(rank, rank);
  }
}

std::string ChunkPass::read_all(std::span<const int32_t> streams) {
  arrivals_.clear();
  for (const int32_t stream : streams) {
    check_interruption();
    Expression value = kEmpty;
    for (const int32_t source : order_.sources(stream)) {
      const Expression part = slots_[at(source)];
      if (part == kEmpty) {
        return fmt::format("rank {} sends to rank {} at step {} but holds nothing", source,
                           order_.targets(stream).front(), order_.stream(stream).step);
      }
      value = value == kEmpty ? part : add(value, part);
    }
    arrivals_.push_back({stream, value});
  }
  const auto smallest_source = [this](const Arrival& arrival) {
    return order_.sources(arrival.stream).front();
  };
  std::stable_sort(arrivals_.begin(), arrivals_.end(),
                   [&smallest_source](const Arrival& left, const Arrival& right) {
                     return smallest_source(left) < smallest_source(right);
                   });
  return "";
}

std::string ChunkPass::commit_all() {
  // Folded by rank, what arrives from smaller ranks waits for the slot's own value.
  std::map<int32_t, Expression> smaller;  // by target
  const auto take_smaller = [&](int32_t target) {
    const auto found = smaller.find(target);
    if (found != smaller.end()) {
      store(target, add(found->second, slots_[at(target)]));
      smaller.erase(found);
    }
  };
  for (const Arrival& arrival : arrivals_) {
    check_interruption();
    const Stream& stream = order_.stream(arrival.stream);
    const int32_t source = order_.sources(arrival.stream).front();
    for (const int32_t target : order_.targets(arrival.stream)) {
      const Expression old = slots_[at(target)];
      if (stream.op == TransferOp::kCopy) {
        store(target, arrival.value);
      } else if (old == kEmpty) {
        return fmt::format("rank {} reduces from rank {} at step {} but holds nothing", target,
                           source, stream.step);
      } else if (schedule_.fold_order == FoldOrder::kByRank && source < target) {
        const auto [entry, is_first] = smaller.try_emplace(target, arrival.value);
        entry->second = is_first ? arrival.value : add(entry->second, arrival.value);
      } else {
        take_smaller(target);
        store(target, add(slots_[at(target)], arrival.value));
      }
    }
  }
  while (!smaller.empty()) {
    take_smaller(smaller.begin()->first);
  }
  return "";
}

ChunkPass::Expression ChunkPass::add(Expression left, Expression right) {
  const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  const auto next = static_cast<Expression>(sums_.size()) + rank_count_;
  const auto [entry, is_new] = known_sums_.emplace(key, next);
  if (is_new) {
    sums_.push_back({left, right});
  }
  return entry->second;
}

void ChunkPass::store(int32_t rank, Expression value) {
  Expression& slot = slots_[at(rank)];
  if (slot == kEmpty) {
    touched_.push_back(rank);
  }
  slot = value;
}

bool ChunkPass::check_outputs(int32_t chunk, std::size_t limit,
                              std::vector<std::string>& violations) {
  const RankRange ranks = outputs(schedule_, chunk);
  const Expression first = slots_[at(ranks.begin)];
  bool all_equal = first != kEmpty;
  // Ranks mostly share few values, so a value judged right is not judged again.
  Expression right = kEmpty;
  for (int32_t rank = ranks.begin; rank < ranks.end; ++rank) {
    const Expression value = slots_[at(rank)];
    all_equal = all_equal && value == first;
    if (value == right && value != kEmpty) {
      continue;
    }
    if (const std::string what = fault(chunk, value); what.empty()) {
      right = value;
    } else if (violations.size() < limit) {
      violations.push_back(fmt::format("rank {} {}", rank, what));
    } else {
      return false;
    }
  }
  return all_equal;
}

std::string ChunkPass::fault(int32_t chunk, Expression value) {
  if (value == kEmpty) {
    return "ends with nothing";
  }
  const std::optional<Rank> source = chunk_source(schedule_, chunk);
  if (!source) {
    return count_contributions(value);
  }
  if (value == source->value) {
    return "";
  }
  return value < rank_count_
             ? fmt::format("ends with the value of rank {} instead of rank {}'s", value,
                           source->value)
             : fmt::format("ends with a sum instead of the value of rank {}", source->value);
}

// Walks the expression; ends at the first rank met twice, so after at most rank_count leaves.
std::string ChunkPass::count_contributions(Expression value) {
  constexpr int32_t kNamed = 8;
  counted_.assign(at(rank_count_), false);
  stack_.assign(1, value);
  int32_t missing = rank_count_;
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    stack_.pop_back();
    if (top >= rank_count_) {
      const Sum& sum = sums_[at(top - rank_count_)];
      stack_.push_back(sum.right);
      stack_.push_back(sum.left);
      continue;
    }
    if (counted_[at(top)]) {
      return fmt::format("counts the contribution of rank {} more than once", top);
    }
    counted_[at(top)] = true;
    --missing;
  }
  if (missing == 0) {
    return "";
  }
  std::string names;
  int32_t named = 0;
  for (int32_t rank = 0; rank < rank_count_ && named < kNamed; ++rank) {
    if (!counted_[at(rank)]) {
      names += fmt::format("{}{}", named++ == 0 ? "" : ", ", rank);
    }
  }
  if (missing > named) {
    names += fmt::format(" and {} more", missing - named);
  }
  return fmt::format("lacks the contribution of {} {}", missing == 1 ? "rank" : "ranks", names);
}

}  // namespace pleach
