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
  if (text.size() > kMaxStoreDepartureBytes) {
    return Error{ErrorCode::kIo, fmt::format("rank {} has left with {} bytes, of at most {}",
                                             rank.value, text.size(), kMaxStoreDepartureBytes)};
  }
  Departure departure{.rank = rank};
  for (const std::string_view word :
       text.empty() ? std::vector<std::string_view>() : split(text, ' ')) {
    const char* const end = word.data() + word.size();
    uint64_t channel = 0;
    uint64_t operation = 0;
    const auto [colon, problem] = std::from_chars(word.data(), end, channel, 16);
    bool is_good = problem == std::errc() && colon != end && *colon == ':';
    if (is_good) {
      const auto [rest, other_problem] = std::from_chars(colon + 1, end, operation);
      is_good = other_problem == std::errc() && rest == end;
    }
    if (!is_good) {
      return Error{ErrorCode::kIo,
                   fmt::format("rank {} has left with the channel {}, which is none", rank.value,
                               pleach::quoted(word))};
    }
    departure.ended[channel] = operation;
  }
  return departure;
}

Result<Departure> read_left(const StoreMessage& message, int32_t rank_count) {
  if (message.number < 0 || message.number >= rank_count) {
    return Error{ErrorCode::kIo,
                 fmt::format("rank {} has left, of {} ranks", message.number, rank_count)};
  }
  return read_departure(Rank{static_cast<int32_t>(message.number)}, message.value);
}

Result<Failure> read_failure(const StoreMessage& message, int32_t rank_count) {
  if (message.number < kNoRank || message.number >= rank_count) {
    return Error{ErrorCode::kIo,
                 fmt::format("rank {} has failed, of {} ranks", message.number, rank_count)};
  }
  if (const std::size_t bytes = scope_of_failure(message).size(); bytes > kMaxStoreScopeBytes) {
    return Error{ErrorCode::kIo, fmt::format("a scope's name of {} bytes, of at most {}", bytes,
                                             kMaxStoreScopeBytes)};
  }
  const Result<ErrorCode> code =
      read_code(std::string_view(message.key).substr(0, message.key.find(' ')));
  return failure_of({code ? *code : ErrorCode::kPeerLost, message.value},
                    Rank{static_cast<int32_t>(message.number)});
}

int64_t scope_failure_bytes(const StoreMessage& message) {
  return static_cast<int64_t>(message.key.size() + message.value.size() + kStoreEntryBytes);
}

std::string write_ranks(const std::vector<Rank>& ranks) {
  std::vector<std::string> words;
  words.reserve(ranks.size());
  for (const Rank rank : ranks) {
    words.push_back(std::to_string(rank.value));
  }
  return join(words, " ");
}

Result<std::vector<Rank>> read_ranks(std::string_view text, int32_t rank_count) {
  std::vector<Rank> ranks;
  for (const std::string_view word : split(text, ' ')) {
    const int32_t least = ranks.empty() ? 0 : ranks.back().value + 1;
    PLEACH_ASSIGN(rank, parse_count(word, "rank of an epoch", least, rank_count - 1));
    ranks.push_back(Rank{rank});
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
  if (const std::size_t value_size = rest.size() - key_size;
      key_size > kMaxStoreKeyBytes || value_size > kMaxStoreValueBytes) {
    return Error{ErrorCode::kIo,
                 fmt::format("a key of {} bytes with a value of {} bytes, of at most {} and {}",
                             key_size, value_size, kMaxStoreKeyBytes, kMaxStoreValueBytes)};
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
