// Transport: moves segments between ranks, with landing places. The registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

// Names one segment of one message of one operation; travels in its header.
struct SegmentTag {
  int32_t stream = 0;
  int32_t segment = 0;
  bool operator==(const SegmentTag&) const = default;
};

struct TransportEvent {
  enum class Kind : uint8_t {
    kSent,      // the segment's source memory may be overwritten
    kArrived,   // `payload` is complete; it stays until release()
    kReleased,  // the peer has released the landing place of a segment we sent
    kGranted,   // the peer has begun this operation and opened `place` landing places (may be 0)
    kRefused,   // the peer has begun this operation with another fingerprint
    kLost,      // the connection to a peer of this operation is gone: `reason`
  };
  Kind kind = Kind::kSent;
  Rank peer;
  SegmentTag tag = {};
  int32_t place = 0;
  std::span<const std::byte> payload = {};
  const char* reason = "";  // a literal
};

// Landing places that this rank offers to one peer for one operation.
struct Landing {
  Rank peer;
  int32_t places = 1;       // ≥ 1
  int64_t place_bytes = 0;  // the largest segment on the connection
};

// One operation, as begin() takes it.
struct TransportOperation {
  uint64_t sequence = 1;              // 1, 2, ... the same on all ranks
  uint64_t fingerprint = 0;           // of what the ranks must agree on
  std::span<const Landing> landings;  // the peers that will send
  std::span<const Rank> targets;      // the peers that will be sent to
};

// One rank's end. Used by one thread. Nothing may be sent to a peer beyond the places it granted;
// nothing of an operation arrives before this rank has begun it.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts an operation; the one before it is over on this rank. Tells every peer in either list,
  // offering places to those that will send, and starts to connect where needed; each of them is
  // heard of by one kGranted (or kRefused, or kLost).
  virtual Status begin(const TransportOperation& operation) = 0;
  // Starts sending the concatenation of `pieces`; at most one send per peer at a time; the memory
  // must stay until kSent.
  virtual Status send(Rank peer, SegmentTag tag,
                      std::span<const std::span<const std::byte>> pieces) = 0;
  // Frees the landing place of an arrived segment and tells the peer.
  virtual Status release(Rank peer, SegmentTag tag, int32_t place) = 0;
  // Appends what has happened; waits for something until `deadline`, then leaves `events` empty.
  //   errors  kPeerLost: the job has failed, with its message; kIo
  virtual Status poll(std::vector<TransportEvent>& events, TimePoint deadline) = 0;
  // Bytes sent and received so far: a sign of life within a large segment.
  virtual uint64_t moved_bytes() const { return 0; }
};

struct TransportContext {
  Rank rank;
  int32_t rank_count = 1;
  std::shared_ptr<Store> store;
  const Clock* clock = nullptr;
  std::string key_prefix;  // of the keys it sets in the store
  Duration deadline = std::chrono::seconds(30);
};

struct TransportKind {
  std::string name;  // "tcp", "inproc"
  std::string summary;
  bool spans_processes = false;
  Result<std::unique_ptr<Transport>> (*create)(const TransportContext& context);

  std::string details() const {
    return spans_processes ? "ranks are processes" : "ranks are threads of one process";
  }
};

Registry<TransportKind> transports();

}  // namespace pleach
