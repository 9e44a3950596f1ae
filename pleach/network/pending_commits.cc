#include "pleach/network/pending_commits.h"

#include <algorithm>
#include <functional>

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

bool Reducers::push(int32_t rank, const Priority& priority, const Arrival& arrival, int64_t bytes) {
  auto& [waiting, under_way] = ranks_[at(rank)];
  waiting.push_back({priority, arrival, bytes});
  std::push_heap(waiting.begin(), waiting.end(), std::greater<>());
  return under_way.empty() && waiting.size() == 1;
}

int64_t Reducers::begin(int32_t rank) {
  auto& [waiting, under_way] = ranks_[at(rank)];
  const Priority smallest = waiting.front().priority;
  int64_t bytes = 0;
  while (!waiting.empty() && waiting.front().priority == smallest) {
    under_way.push_back(waiting.front().arrival);
    bytes += waiting.front().bytes;
    std::pop_heap(waiting.begin(), waiting.end(), std::greater<>());
    waiting.pop_back();
  }
  return transmit_time_ps(bytes, bandwidth_bytes_per_s_);
}

}  // namespace pleach
