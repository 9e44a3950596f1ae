// What the clients of a TCP store and its server say to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pleach/base/result.h"
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
  kDone,         // server, to one of the four: value, number
  kTimedOut,     // server, to kGet
  kFail,         // client: number = rank, value = message
  kFailure,      // server: the same, to all
  kAcknowledge,  // client, to kFailure
  kPing,         // server
  kPong,         // client
  kGoodbye,      // client, answered by the server with the same
};

struct StoreMessage {
  StoreVerb verb = StoreVerb::kPing;
  uint64_t id = 0;  // a reply has its request's
  int64_t number = 0;
  std::string key = {};
  std::string value = {};
};

inline constexpr std::size_t kMaxStoreKeyBytes = 4096;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{16} << 20;
// Of a message.
inline constexpr std::size_t kMaxStoreMessageBytes = kMaxStoreKeyBytes + kMaxStoreValueBytes + 64;

// What a client claims to meet: nobody learns the job's name by it.
uint64_t store_meeting(const JobSecret& secret, std::string_view job);

// The message with its length before it.
std::string write_store_message(const StoreMessage& message);

// Cuts a stream of bytes into messages.
class StoreMessageReader {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next message, or empty when it has not arrived completely. Errors: kIo: these are no
  // messages.
  Result<std::optional<StoreMessage>> next();

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been returned
};

}  // namespace pleach
