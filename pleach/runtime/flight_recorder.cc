#include "pleach/runtime/flight_recorder.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/request_fingerprint.h"

namespace pleach {
namespace {

constexpr std::size_t kMostNames = 1024;

}  // namespace

FlightRecorder::FlightRecorder(Rank rank, int32_t rank_count)
    : rank_(rank),
      rank_count_(rank_count),
      width_(std::min(rank_count, kMostPeers)),
      entries_(std::make_unique<FlightEntry[]>(kEntries)),
      first_(std::make_unique<First[]>(kEntries * at(width_))),
      messages_{0, std::make_unique<FlightMessage[]>(kEntries)} {}

void FlightRecorder::name_channel(uint64_t channel, FlightLog::Channel names) {
  if (channels_.size() >= kMostNames) {
    std::erase_if(channels_, [&](const auto& named) {
      const auto is_of_it = [&](const auto& entry) { return entry.channel == named.first; };
      return std::none_of(entries_.get(), entries_.get() + kEntries, is_of_it) &&
             std::none_of(messages_.all.get(), messages_.all.get() + kEntries, is_of_it);
    });
  }
  channels_[channel] = std::move(names);
}

void FlightRecorder::name_schedule(uint64_t schedule_hash, const std::string& algorithm) {
  if (schedules_.size() < kMostNames) {
    schedules_[schedule_mark(schedule_hash)] = algorithm;
  }
}

uint64_t FlightRecorder::begin(uint64_t channel, uint64_t operation, uint64_t fingerprint,
                               std::span<const Rank> sources) {
  const uint64_t number = ++last_number_;
  FlightEntry& entry = entries_[number % kEntries];
  entry.number = number;
  entry.channel = channel;
  entry.operation = operation;
  entry.fingerprint = fingerprint;
  entry.started = now_;
  entry.finished = {};
  entry.has_failed = false;
  for (const Rank source : sources) {
    if (source.value < width_) {
      first_at(number, source) = {static_cast<uint32_t>(number), kAwaited};
    }
  }
  return number;
}

void FlightRecorder::end(uint64_t number, bool has_failed) {
  FlightEntry& entry = entries_[number % kEntries];
  if (entry.number == number) {
    entry.finished = now_;
    entry.has_failed = has_failed;
  }
}

uint64_t FlightRecorder::begin_message(const FlightMessage& message) {
  const uint64_t number = ++messages_.last_number;
  FlightMessage& noted = messages_.all[number % kEntries];
  noted = message;
  noted.number = number;
  noted.started = now_;
  return number;
}

void FlightRecorder::end_message(uint64_t number, bool has_failed) {
  if (FlightMessage* const message = find_message(number)) {
    message->finished = now_;
    message->has_failed = has_failed;
  }
}

const FlightEntry* FlightRecorder::find(uint64_t channel, uint64_t operation) const {
  const FlightEntry* const end = entries_.get() + kEntries;
  const FlightEntry* const found =
      std::find_if<const FlightEntry*>(entries_.get(), end, [&](const FlightEntry& entry) {
        return entry.number != 0 && entry.channel == channel && entry.operation == operation;
      });
  return found == end ? nullptr : found;
}

FlightLog FlightRecorder::log() const {
  FlightLog log{.rank = rank_,
                .rank_count = rank_count_,
                .now = now_,
                .operations = {},
                .messages = {},
                .channels = channels_,
                .schedules = schedules_};
  const uint64_t count = std::min<uint64_t>(last_number_, kEntries);
  log.operations.reserve(count);
  for (uint64_t number = last_number_ - count + 1; number <= last_number_; ++number) {
    FlightLog::Operation operation{entries_[number % kEntries], {}};
    for (int32_t peer = 0; peer < width_; ++peer) {
      const First& first = first_[number % kEntries * at(width_) + at(peer)];
      if (first.number == static_cast<uint32_t>(number)) {
        const bool has_come = first.state != kAwaited;
        const int64_t ticks = has_come ? int64_t{first.state} - 1 : 0;
        operation.first_segments.push_back({Rank{peer}, has_come, Duration(ticks << kTickShift)});
      }
    }
    log.operations.push_back(std::move(operation));
  }
  const uint64_t messages = std::min<uint64_t>(messages_.last_number, kEntries);
  for (uint64_t number = messages_.last_number - messages + 1; number <= messages_.last_number;
       ++number) {
    log.messages.push_back(messages_.all[number % kEntries]);
  }
  return log;
}

}  // namespace pleach
