#include "flight.h"

#include <chrono>
#include <utility>

namespace pleach_torch {
namespace {

int64_t now_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

}  // namespace

FlightRing& FlightRing::of_process() {
  static auto* const ring = new FlightRing;  // operations may end when what is static has gone
  return *ring;
}

FlightPlace FlightRing::begin(FlightRecord record) {
  record.created_ns = now_ns();
  const std::scoped_lock lock(mutex_);
  record.number = count_++;
  const FlightPlace place = {record.number, true};
  if (ring_.size() < kMostRecords) {
    ring_.push_back(std::move(record));
  } else {
    ring_[place.number % kMostRecords] = std::move(record);
  }
  return place;
}

void FlightRing::end(FlightPlace place, FlightState state) {
  if (!place.is_there) {
    return;
  }
  const int64_t ended_ns = now_ns();
  const std::scoped_lock lock(mutex_);
  FlightRecord& record = ring_[place.number % kMostRecords];
  if (record.number == place.number) {
    record.state = state;
    record.ended_ns = ended_ns;
    record.is_retired = true;
  }
}

std::vector<FlightRecord> FlightRing::records() const {
  const std::scoped_lock lock(mutex_);
  std::vector<FlightRecord> records;
  const uint64_t first = count_ - ring_.size();
  for (uint64_t number = first; number < count_; ++number) {
    records.push_back(ring_[number % kMostRecords]);
  }
  return records;
}

std::vector<std::vector<int64_t>> sizes_of(const Tensors& tensors) {
  std::vector<std::vector<int64_t>> sizes;
  sizes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    sizes.push_back(tensor.sizes().vec());
  }
  return sizes;
}

std::vector<at::ScalarType> types_of(const Tensors& tensors) {
  std::vector<at::ScalarType> types;
  types.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    types.push_back(tensor.scalar_type());
  }
  return types;
}

}  // namespace pleach_torch
