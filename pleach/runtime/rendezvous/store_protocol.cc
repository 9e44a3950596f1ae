#include "pleach/runtime/rendezvous/store_protocol.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "pleach/base/text.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {
namespace {

static_assert(std::endian::native == std::endian::little, "messages travel in little-endian form");

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes.remove_prefix(sizeof(value));
  return value;
}

// Verb, id, number and the length of the key.
constexpr std::size_t kFixedBytes = 1 + 8 + 8 + 4;

}  // namespace

uint64_t store_meeting(const JobSecret& secret, std::string_view job) {
  const std::string name = "job " + std::string(job);
  const Digest digest = secret.sign(std::as_bytes(std::span(name)));
  uint64_t meeting = 0;
  std::memcpy(&meeting, digest.data(), sizeof(meeting));
  return meeting;
}

std::string write_store_message(const StoreMessage& message) {
  std::string bytes;
  const std::size_t length = kFixedBytes + message.key.size() + message.value.size();
  bytes.reserve(4 + length);
  append(bytes, static_cast<uint32_t>(length));
  append(bytes, message.verb);
  append(bytes, message.id);
  append(bytes, message.number);
  append(bytes, static_cast<uint32_t>(message.key.size()));
  return bytes + message.key + message.value;
}

StoreMessage write_failure(StoreVerb verb, int64_t epoch, const Failure& failure,
                           std::string_view scope) {
  std::string key = write_code(failure.code);
  if (!scope.empty()) {
    key.append(" ").append(scope);
  }
  return {.verb = verb,
          .id = static_cast<uint64_t>(epoch),
          .number = failure.rank.value,
          .key = std::move(key),
          .value = failure.message};
}

std::string_view scope_of_failure(const StoreMessage& message) {
  const std::size_t space = message.key.find(' ');
  return space == std::string::npos ? std::string_view()
                                    : std::string_view(message.key).substr(space + 1);
}

std::string write_departure(const Departure& departure) {
  std::vector<std::string> words;
  words.reserve(departure.ended.size());
  for (const auto& [channel, operation] : departure.ended) {
    words.push_back(fmt::format("{:x}:{}", channel, operation));
  }
  return join(words, " ");
}

Result<Departure> read_departure(Rank rank, std::string_view text) {
  Departure departure{.rank = rank};
  for (const std::string_view word :
       text.empty() ? std::vector<std::string_view>() : split(text, ' ')) {
    const char* const end = word.data() + word.size();
    uint64_t channel = 0;
    uint64_t operation = 0;
    const auto [colon, problem] = std::from_chars(word.data(), end, channel, 16);
    if (problem != std::errc() || colon == end || *colon != ':' ||
        std::from_chars(colon + 1, end, operation).ptr != end) {
      return Error{ErrorCode::kIo, "a departure of no channels"};
    }
    departure.ended[channel] = operation;
  }
  return departure;
}

Failure read_failure(const StoreMessage& message) {
  const Result<ErrorCode> code =
      read_code(std::string_view(message.key).substr(0, message.key.find(' ')));
  return failure_of({code ? *code : ErrorCode::kPeerLost, message.value},
                    Rank{static_cast<int32_t>(message.number)});
}

std::string write_ranks(const std::vector<Rank>& ranks) {
  std::vector<std::string> words;
  words.reserve(ranks.size());
  for (const Rank rank : ranks) {
    words.push_back(std::to_string(rank.value));
  }
  return join(words, " ");
}

Result<std::vector<Rank>> read_ranks(std::string_view text) {
  std::vector<Rank> ranks;
  for (const std::string_view word : split(text, ' ')) {
    PLEACH_ASSIGN(rank, parse_integer(word, "rank", 0, INT32_MAX));
    ranks.push_back(Rank{static_cast<int32_t>(rank)});
  }
  return ranks;
}

Result<std::optional<StoreMessage>> StoreMessageReader::next() {
  std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (rest.size() < 4) {
    return std::optional<StoreMessage>();
  }
  const auto length = take<uint32_t>(rest);
  if (length < kFixedBytes || length > most_bytes_) {
    return Error{ErrorCode::kIo, fmt::format("a message of {} bytes", length)};
  }
  if (rest.size() < length) {
    return std::optional<StoreMessage>();
  }
  rest = rest.substr(0, length);
  StoreMessage message;
  const auto verb = take<uint8_t>(rest);
  message.id = take<uint64_t>(rest);
  message.number = take<int64_t>(rest);
  const auto key_size = take<uint32_t>(rest);
  if (verb > static_cast<uint8_t>(StoreVerb::kLeft) || key_size > rest.size()) {
    return Error{ErrorCode::kIo,
                 fmt::format("a message with verb {} and a key of {} bytes", verb, key_size)};
  }
  message.verb = static_cast<StoreVerb>(verb);
  message.key = rest.substr(0, key_size);
  message.value = rest.substr(key_size);
  begin_ += 4 + std::size_t{length};
  if (begin_ == bytes_.size() || begin_ > (std::size_t{1} << 20)) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return std::optional(std::move(message));
}

}  // namespace pleach
