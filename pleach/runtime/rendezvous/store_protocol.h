// What the clients of a TCP store and its server say to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/rendezvous/epoch.h"
#include "pleach/runtime/rendezvous/secret.h"

namespace pleach {

enum class StoreVerb : uint8_t {
  kWelcome,      // server, once it knows who has come
  kRejected,     // server: value = why
  kOtherJob,     // server: asking again may help
  kSet,          // client: key, value
  kGet,          // client: key, number = deadline [ns]
  kIncrement,    // client: key
  kErase,        // client: key = prefix
  kRecover,      // client: number = deadline [ns], value = epoch; kEpoch comes before its kDone
  kDone,         // server, to one of the five: value, number
  kTimedOut,     // server, to kGet and kRecover: value = why
  kRefused,      // server, to one of the five: value = why
  kEpoch,        // server: number = the next epoch, value = its ranks; it has begun
  kFail,         // client: id = epoch, number = rank, key = code [scope], value = message
  kFailure,      // server: the same, to all
  kOut,          // server: value = why the rank is out of the job
  kAcknowledge,  // client, to kFailure
  kPing,         // server
  kPong,         // client
  kGoodbye,      // client: value = its departure; answered by the server with the same
  kLeft,         // server: number = a rank that has left, value = its departure
};

struct StoreMessage {
  StoreVerb verb = StoreVerb::kPing;
  uint64_t id = 0;  // a reply has its request's
  int64_t number = 0;
  std::string key = {};
  std::string value = {};
};

// Both ends refuse what is larger.
inline constexpr std::size_t kMaxStoreKeyBytes = 4096;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxStoreScopeBytes = 64;  // name of a scope
inline constexpr std::size_t kStoreEntryBytes = 128;  // what a map takes beside its texts, or less
inline constexpr std::size_t kMaxStoreDepartureBytes = std::size_t{1} << 20;
// The text of a failure, which a rank cuts to this before it is sent. The server cleans it, which
// makes at most four bytes of one.
inline constexpr std::size_t kMaxStoreFailureBytes = 4000;
inline constexpr std::size_t kMaxStoreToldBytes = 4 * kMaxStoreFailureBytes;
// The failures of scopes that one rank tells in one epoch, as scope_failure_bytes() counts.
inline constexpr int64_t kMaxStoreScopesBytes = int64_t{16} << 20;
// Of a message.
inline constexpr std::size_t kMaxStoreMessageBytes = kMaxStoreKeyBytes + kMaxStoreValueBytes + 64;

// Who claims to be this rank is none: it may tell of a failure, and nobody waits for it.
inline constexpr int32_t kNoRank = -1;

// What a client claims to meet: nobody learns the job's name by it.
uint64_t store_meeting(const JobSecret& secret, std::string_view job);

// The message with its length before it.
std::string write_store_message(const StoreMessage& message);

// kFail and kFailure. Of a code that this process does not know kPeerLost is read.
//   scope   of the epoch; empty: all of it
//   errors  kIo: there is no such rank; the name of the scope is too long
StoreMessage write_failure(StoreVerb verb, int64_t epoch, const Failure& failure,
                           std::string_view scope = {});
Result<Failure> read_failure(const StoreMessage& message, int32_t rank_count);
std::string_view scope_of_failure(const StoreMessage& message);
// The bytes that it takes to keep the failure of a scope.
int64_t scope_failure_bytes(const StoreMessage& message);

// The channels of a departure: "1f:3 2a:0", with hexadecimal channels.
std::string write_departure(const Departure& departure);
// Errors: kIo: that is none.
Result<Departure> read_departure(Rank rank, std::string_view text);
// The rank and departure of kLeft. Errors: kIo: as above; there is no such rank.
Result<Departure> read_left(const StoreMessage& message, int32_t rank_count);

// The ranks of kEpoch: "0 2 3". Errors: they are not ascending ranks of so many.
std::string write_ranks(const std::vector<Rank>& ranks);
Result<std::vector<Rank>> read_ranks(std::string_view text, int32_t rank_count);

// Cuts a stream of bytes into messages.
class StoreMessageReader {
 public:
  StoreMessageReader() = default;
  explicit StoreMessageReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next message, or empty when it has not arrived completely. Errors: kIo: these are no
  // messages.
  Result<std::optional<StoreMessage>> next();

 private:
  std::size_t most_bytes_ = kMaxStoreMessageBytes;  // of a message
  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been returned
};

}  // namespace pleach
