// What the clients of a TCP store and its server say to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pleach/base/result.h"

namespace pleach {

enum class StoreVerb : uint8_t {
  kHello,        // client: number = rank, id = rank count, key = job, value = kStoreGreeting
  kWelcome,      // server
  kRejected,     // server: value = why
  kOtherJob,     // server: value = why; asking again may help
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

inline constexpr std::string_view kStoreGreeting = "pleach store 1";
inline constexpr std::size_t kMaxStoreKeyBytes = 4096;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{16} << 20;
// Of a message from somebody who has not said hello.
inline constexpr std::size_t kMaxStoreHelloBytes = 8192;

// The message with its length before it.
std::string write_store_message(const StoreMessage& message);

// Cuts a stream of bytes into messages.
class StoreMessageReader {
 public:
  explicit StoreMessageReader(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void set_limit(std::size_t limit_bytes) { limit_bytes_ = limit_bytes; }
  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next message, or empty when it has not arrived completely. Errors: kIo: these are no
  // messages.
  Result<std::optional<StoreMessage>> next();

 private:
  std::size_t limit_bytes_;
  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been returned
};

}  // namespace pleach
