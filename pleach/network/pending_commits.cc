#include "pleach/network/pending_commits.h"

#include <algorithm>

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

int64_t Reducers::push(int32_t rank, const Arrival& arrival, int64_t bytes, int64_t now_ps) {
  auto& [free_ps, queue] = ranks_[at(rank)];
  free_ps =
      add_times_ps(std::max(free_ps, now_ps), transmit_time_ps(bytes, bandwidth_bytes_per_s_));
  queue.push_back(arrival);
  return free_ps;
}

Arrival Reducers::pop(int32_t rank) {
  std::deque<Arrival>& queue = ranks_[at(rank)].queue;
  const Arrival first = queue.front();
  queue.pop_front();
  return first;
}

}  // namespace pleach
