// FlightRecorder: the last operations and messages of one rank, for who asks why a job is slow or
// stuck.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/program_index.h"

namespace pleach {

// One operation of a channel of collectives.
struct FlightEntry {
  uint64_t number = 0;  // of the recorder: 1, 2, ...; 0: none
  uint64_t channel = 0;
  uint64_t operation = 0;    // of its channel
  uint64_t fingerprint = 0;  // request_fingerprint()
  TimePoint started = {};
  TimePoint finished = {};  // zero while it is in flight
  bool has_failed = false;
};

// One message that this rank sends or receives. Ranks are the job's.
struct FlightMessage {
  uint64_t number = 0;  // of the recorder: 1, 2, ...; 0: none
  uint64_t channel = 0;
  bool is_send = false;
  Rank peer = {};  // -1: any, as far as it is known
  int32_t tag = 0;
  int64_t bytes = 0;        // of a receive: the most that it takes, until it is matched
  uint64_t sequence = 0;    // of the message, from its source to its target; 0: not known
  bool is_matched = false;  // the other side has taken its part
  bool has_failed = false;
  TimePoint started = {};
  TimePoint finished = {};  // zero while it is in flight
};

// When the first segment of one peer came.
struct FirstSegment {
  Rank peer;
  bool has_come = false;  // else it is awaited
  Duration after = {};    // the start; in steps of 128 ns, at most 9 minutes
};

// What a recorder held at one moment.
struct FlightLog {
  struct Operation {
    FlightEntry entry;
    std::vector<FirstSegment> first_segments;
  };
  struct Channel {
    std::string name;         // the communicator's
    std::vector<Rank> ranks;  // of the job, by rank in the communicator
  };
  Rank rank;
  int32_t rank_count = 1;
  TimePoint now;
  std::vector<Operation> operations;    // the earliest first
  std::vector<FlightMessage> messages;  // the same
  std::map<uint64_t, Channel> channels;
  std::map<uint16_t, std::string> schedules;  // schedule_mark() to the algorithm's name
};

// Two rings. What is called within an operation allocates nothing and costs some ten instructions.
// Used by one thread at a time.
class FlightRecorder {
 public:
  static constexpr std::size_t kEntries = 2048;
  // Of larger jobs, who sent first is noted of so many ranks.
  static constexpr int32_t kMostPeers = 256;

  FlightRecorder(Rank rank, int32_t rank_count);

  Rank rank() const { return rank_; }

  // For the log. What no operation refers to any more may be forgotten.
  void name_channel(uint64_t channel, FlightLog::Channel names);
  void name_schedule(uint64_t schedule_hash, const std::string& algorithm);

  // When what is noted from now on happens.
  void set_now(TimePoint now) { now_ = now; }
  // Notes that an operation begins, which waits for segments of `sources`; returns its number.
  uint64_t begin(uint64_t channel, uint64_t operation, uint64_t fingerprint,
                 std::span<const Rank> sources);
  // Notes a segment of a peer.
  void arrived(uint64_t number, Rank peer) {
    if (peer.value >= width_) {
      return;
    }
    First& first = first_at(number, peer);
    if (first.number == static_cast<uint32_t>(number) && first.state == kAwaited) {
      first.state = age(number);
    }
  }
  void end(uint64_t number, bool has_failed);
  // Notes that a message begins; returns its number.
  uint64_t begin_message(const FlightMessage& message);
  // One that has begun. Null: it is noted no more.
  FlightMessage* find_message(uint64_t number) {
    FlightMessage& message = messages_.all[number % kEntries];
    return message.number == number ? &message : nullptr;
  }
  void end_message(uint64_t number, bool has_failed);

  // The operation of a channel, if it is still here.
  //   cost  O(kEntries): for errors
  const FlightEntry* find(uint64_t channel, uint64_t operation) const;
  FlightLog log() const;

 private:
  // Of one peer's first segment. What is left of an older operation has another number, so nothing
  // is cleared when one begins.
  struct First {
    uint32_t number = 0;  // the operation's, modulo 2^32
    uint32_t state = 0;   // 0: it has not come; when it has, 1 and its time in ticks
  };
  static constexpr uint32_t kAwaited = 0;
  static constexpr int kTickShift = 7;  // of nanoseconds

  First& first_at(uint64_t number, Rank peer) {
    return first_[number % kEntries * static_cast<std::size_t>(width_) + peer.index()];
  }
  uint32_t age(uint64_t number) const {
    const int64_t ticks = (now_ - entries_[number % kEntries].started).count() >> kTickShift;
    return static_cast<uint32_t>(std::min<int64_t>(ticks, UINT32_MAX - 1)) + 1;
  }

  Rank rank_;
  int32_t rank_count_ = 1;
  int32_t width_ = 1;  // peers that are noted
  TimePoint now_;
  uint64_t last_number_ = 0;
  std::unique_ptr<FlightEntry[]> entries_;
  std::unique_ptr<First[]> first_;  // by entry and peer
  struct Messages {
    uint64_t last_number = 0;
    std::unique_ptr<FlightMessage[]> all;
  } messages_;
  std::map<uint64_t, FlightLog::Channel> channels_;
  std::map<uint16_t, std::string> schedules_;
};

// One operation or message of a recorder, or of none: then nothing is noted.
struct FlightNote {
  FlightRecorder* recorder = nullptr;
  uint64_t number = 0;
  bool is_message = false;

  void begin(uint64_t channel, uint64_t operation, uint64_t fingerprint,
             std::span<const Rank> sources) {
    number = recorder != nullptr ? recorder->begin(channel, operation, fingerprint, sources) : 0;
  }
  void arrived(Rank peer) const {
    if (number != 0) {
      recorder->arrived(number, peer);
    }
  }
  void begin_message(const FlightMessage& message) {
    number = recorder != nullptr ? recorder->begin_message(message) : 0;
    is_message = true;
  }
  // The number of a message that is sent.
  void counted(uint64_t sequence) const {
    FlightMessage* const message = number != 0 ? recorder->find_message(number) : nullptr;
    if (message != nullptr) {
      message->sequence = sequence;
    }
  }
  // The other side of a message has taken its part.
  void matched(Rank peer, uint64_t sequence, int64_t bytes) const {
    FlightMessage* const message = number != 0 ? recorder->find_message(number) : nullptr;
    if (message != nullptr) {
      message->peer = peer;
      message->sequence = sequence;
      message->bytes = bytes;
      message->is_matched = true;
    }
  }
  void end(bool has_failed) const {
    if (number != 0) {
      is_message ? recorder->end_message(number, has_failed) : recorder->end(number, has_failed);
    }
  }
  // An operation of its channel, if it is noted still.
  const FlightEntry* find(uint64_t channel, uint64_t operation) const {
    return recorder != nullptr ? recorder->find(channel, operation) : nullptr;
  }
};

}  // namespace pleach
