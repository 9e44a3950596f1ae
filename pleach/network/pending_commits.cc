#include "pleach/network/pending_commits.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "pleach/base/units.h"

namespace pleach {

void LandedChunks::add(const Arrival& arrival) {
  if (bits_.empty()) {
    const std::size_t bits = at(schedule_.order().commit_count()) * at(schedule_.segment_count()) *
                             at(schedule_.translate_count());
    bits_.resize((bits + 63) / 64);
  }
  const std::size_t bit = bit_of(arrival);
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
  ++count_;
}

bool LandedChunks::has(const Arrival& arrival) const {
  const std::size_t bit = bit_of(arrival);
  return !empty() && (bits_[bit / 64] >> (bit % 64) & 1) != 0;
}

void LandedChunks::remove(const Arrival& arrival) {
  const std::size_t bit = bit_of(arrival);
  bits_[bit / 64] &= ~(uint64_t{1} << (bit % 64));
  --count_;
}

bool Reducers::is_later(const Waiting& left, const Waiting& right) const {
  if (rules_.turn == ReduceRules::Turn::kTold) {
    return left.told > right.told;
  }
  if (rules_.turn == ReduceRules::Turn::kArrival) {
    return std::tie(left.since_ps, left.message) > std::tie(right.since_ps, right.message);
  }
  return std::tie(left.message.key, left.message.segment) >
         std::tie(right.message.key, right.message.segment);
}

bool Reducers::go_together(const Waiting& left, const Waiting& right) const {
  if (rules_.turn != ReduceRules::Turn::kPriority) {
    return left.message == right.message;
  }
  return left.message.key == right.message.key && left.message.segment == right.message.segment;
}

bool Reducers::push(int32_t rank, const Send& message, const Arrival& arrival, int64_t bytes,
                    int64_t now_ps) {
  auto& [waiting, under_way] = ranks_[at(rank)];
  waiting.push_back({message, now_ps, told_count_++, arrival, bytes});
  std::ranges::push_heap(waiting, std::bind_front(&Reducers::is_later, this));
  return under_way.empty() && waiting.size() == 1;
}

int64_t Reducers::begin(int32_t rank) {
  auto& [waiting, under_way] = ranks_[at(rank)];
  const Waiting first = waiting.front();
  int64_t bytes = 0;
  while (!waiting.empty() && go_together(waiting.front(), first)) {
    under_way.push_back(waiting.front().arrival);
    bytes += waiting.front().bytes;
    std::ranges::pop_heap(waiting, std::bind_front(&Reducers::is_later, this));
    waiting.pop_back();
  }
  int64_t blocks = (bytes + rules_.block_bytes - 1) / rules_.block_bytes;
  if (rules_.last_block_only) {
    blocks = std::min<int64_t>(blocks, 1);
  }
  return add_times_ps(rules_.extra_ps,
                      transmit_time_ps(blocks * rules_.block_bytes, rules_.bandwidth_bytes_per_s));
}

}  // namespace pleach
