// Transport: moves segments between ranks, with landing places. The registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

// Names one segment of one message of one operation; travels in its header.
struct SegmentTag {
  uint64_t operation = 0;  // of its channel: 1, 2, ... the same on all ranks
  int32_t stream = 0;
  int32_t segment = 0;
  bool operator==(const SegmentTag&) const = default;
};

struct TransportEvent {
  enum class Kind : uint8_t {
    kSent,      // a segment that send() began: its source memory may be overwritten
    kArrived,   // `payload` is complete; it stays until release()
    kReleased,  // the peer has released the landing place of a segment we sent, and read what we
                // lent
    kRead,      // the peer has read chunk `item` of a segment that we lent
    kBegun,     // the peer says that it has begun tag.operation
    kLost,      // the connection to a peer is gone: `reason`; of no channel, and told once
  };
  Kind kind = Kind::kSent;
  Rank peer;
  uint64_t channel = 0;
  SegmentTag tag = {};
  uint64_t fingerprint = 0;  // kArrived, kBegun: of the operation, as the peer runs it
  int32_t place = 0;         // kArrived
  int32_t item = 0;          // kRead
  bool is_lent = false;      // kArrived: `payload` is the peer's own memory
  bool is_remote = false;    // and where it stands there: only fetch() reads it
  std::span<const std::byte> payload = {};
  const char* reason = "";  // a literal
};

// One channel: operations with numbers and landing places of their own, on the same connections.
struct ChannelOptions {
  uint64_t number = 0;         // distinct among a transport's, the same on all ranks
  int32_t places = 4;          // for segments from each peer, and at each peer: [1, kMostPlaces]
  int64_t place_bytes = 4096;  // room of each, [1, kMostPlaceBytes]
  // Smaller segments are never lent: to copy them takes no longer than to hear that they are read.
  int64_t least_lent = 4096;
  // What has to be fetched is lent where that is faster; tests want it always or never.
  enum class Fetching : uint8_t { kWhereFaster, kAlways, kNever };
  Fetching fetching = Fetching::kWhereFaster;
};
inline constexpr int32_t kMostPlaces = 64;
inline constexpr int64_t kMostPlaceBytes = int64_t{1} << 30;

// Where segments belong, for transports that put them there as they come.
class Sink {
 public:
  virtual ~Sink() = default;
  // The memory that a segment may be written to before it is complete: where it belongs, if the
  // order permits that already. Empty: its landing place. Called within progress().
  virtual std::span<std::byte> home(Rank peer, uint64_t channel, SegmentTag tag,
                                    uint64_t fingerprint, std::size_t bytes) = 0;
};

// Why a peer without a connection is lost when it has left.
inline constexpr const char* kHasLeft = "it has left the job";

// One rank's end. A channel is open on all ranks before anything travels on it; no more segments
// are on their way to a peer, or in its places, than the channel has places. What arrives stays in
// its place until it is released, whether or not this rank has begun its operation.
//
// One call at a time, but wait(): one thread may be in it while others call the rest.
class Transport {
 public:
  virtual ~Transport() = default;
  // Who is asked where segments belong; before anything else is called. Borrows it.
  virtual void set_sink(Sink& sink) = 0;
  // Errors: kInvalidArgument: too many are open; kIo: there is no memory.
  virtual Status open(const ChannelOptions& channel) = 0;
  // Neither writes nor reads the memory of its segments any more. Of those that are on their way
  // here none arrives; one that has begun to leave may still arrive at its peer, whole and as it
  // was. No other channel is disturbed.
  virtual void abandon(uint64_t channel) = 0;
  // abandon(), and the places are gone.
  virtual void close(uint64_t channel) = 0;
  // What its peers need to reach this rank: any bytes, the same while it lives.
  virtual std::string address() const = 0;
  // Tells it a peer's address. Before connect(); what is known of a connected peer changes nothing.
  //   errors  kIo: that is no address; kUnsupported: it is out of reach; kInvalidArgument: the two
  //           ends are made for different connections
  virtual Status introduce(Rank peer, std::string_view address) = 0;
  // Starts to connect to a peer that it was introduced to, where that is needed; send() then waits
  // for it.
  virtual Status connect(Rank peer) = 0;
  // A peer has left the job. One that has not connected by then never will: it is lost. The end of
  // a connection tells of the others, after all that they have sent.
  virtual void note_departure(Rank /*peer*/) {}
  // Tells a peer that this rank has begun an operation.
  virtual Status tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                            uint64_t fingerprint) = 0;
  // Sends the concatenation of `pieces`; at most one send per peer at a time.
  //   returns  whether all has left; if not, the memory must stay until kSent (or kLost)
  virtual Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                            std::span<const std::span<const std::byte>> pieces) = 0;
  // Lets the peer read a segment where it stands, in place of send(): it takes a landing place, and
  // the memory must stay until kReleased (or kLost).
  //   returns  false: it cannot be, and nothing has happened; send() it
  virtual Result<bool> lend(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                            uint64_t /*fingerprint*/, std::span<const std::byte> /*bytes*/) {
    return false;
  }
  // Whether peers may read this rank's peer memory: lend() takes what lies there.
  virtual bool reads_peers() const { return false; }
  // Copies a part of a remote payload to this rank. False: it cannot be read, the peer is lost.
  virtual bool fetch(Rank /*peer*/, const std::byte* /*from*/, std::span<std::byte> /*to*/) {
    return false;
  }
  // Says that a chunk of a segment that the peer lent has been read; release() says it of all.
  virtual Status tell_read(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                           int32_t /*item*/) {
    return ok();
  }
  // Frees the landing place of an arrived segment. The peer hears of it with the next segment that
  // goes there, at flush(), or at once when it lent the segment or half of the channel's places are
  // held back.
  virtual Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) = 0;
  // Whether releases are held back, and what sends them.
  virtual bool holds_back() const = 0;
  virtual Status flush() = 0;
  // Whether something has happened that progress() would tell now, besides what wait() would see.
  virtual bool has_events() const = 0;
  // When progress() has something to do at the latest, whatever wait() sees: a part of the deadline
  // that whoever calls wait() gives it, as only he knows what others have called since.
  virtual TimePoint expiry() const { return TimePoint::max(); }
  // Makes who is in wait(), or will be next, return at once.
  virtual void interrupt() = 0;
  // Waits until progress() has something to do, at most until `deadline`. It reads nothing that the
  // others write: what they change goes by expiry() and interrupt().
  //   is_eager  somebody waits for it: it may keep a core busy for a while before it sleeps
  //   errors    kIo
  virtual Status wait(TimePoint deadline, bool is_eager) = 0;
  // Acts on what wait() saw, and appends what has happened. Never waits.
  //   errors  the failure of its epoch; kIo
  virtual Status progress(std::vector<TransportEvent>& events) = 0;
  // Whether peers read memory faster than this rank's caches: what they are to read is then written
  // past them.
  virtual bool has_far_peers() const { return false; }
  // Bytes sent and received so far: a sign of life within a large segment.
  virtual uint64_t moved_bytes() const { return 0; }
  // For who waits for other things too: is readable when wait() has something to see. -1: only
  // wait() knows.
  virtual int descriptor() const { return -1; }
};

// Where a rank is.
struct OwnHost {
  std::string name = {};  // of ranks on one machine those of different names count as apart
  int32_t ranks = 0;      // of the transport's, on that host; 0: not known
};

struct TransportContext {
  Rank rank;
  int32_t rank_count = 1;
  std::shared_ptr<Store> store;
  std::shared_ptr<const Epoch> epoch;  // it is of: when that fails, progress() does
  const Clock* clock = nullptr;
  std::string key_prefix;  // distinct from other transports' of the job
  Duration deadline = std::chrono::seconds(30);
  OwnHost host = {};
  int beside = -1;  // a descriptor: wait() returns when it is readable, too ("shm" alone)
  std::optional<Options> options = {};  // of its kind's; none: as their defaults

  // So many may share its cores.
  int32_t ranks_on_host() const { return host.ranks > 0 ? host.ranks : rank_count; }
};

// What introduce() says of such bytes.
Error no_address(Rank peer, std::string_view address);
// Tells connections to a transport from those to another that had its address before. Random: only
// who is told it knows it.
uint64_t make_nonce();

struct TransportKind {
  std::string name;  // "tcp", "shm", "host", "inproc"
  std::string summary;
  bool spans_processes = false;
  bool spans_hosts = false;
  std::vector<OptionDescriptor> options = {};
  Result<std::unique_ptr<Transport>> (*create)(const TransportContext& context);

  std::string details() const {
    const std::string ranks = spans_hosts       ? "ranks are processes"
                              : spans_processes ? "ranks are processes of one host"
                                                : "ranks are threads of one process";
    return options.empty() ? ranks : ranks + "; " + option_details(options);
  }
};

Registry<TransportKind> transports();

// One of a kind, as a spec names it: "tcp,sockets=2".
//   errors  kInvalidArgument: no such kind, or option; its own
Result<std::unique_ptr<Transport>> create_transport(std::string_view spec,
                                                    TransportContext context);
// Its kind alone.
std::string transport_name(std::string_view spec);

}  // namespace pleach
