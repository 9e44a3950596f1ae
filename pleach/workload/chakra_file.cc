#include "pleach/workload/chakra_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/workload/chakra.pb.h"

namespace pleach {
namespace {

constexpr std::string_view kVersion = "1.0.0";

// Limits of a rank's file, so that a small one cannot take any memory.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;         // decompressed
constexpr std::size_t kMostMessageBytes = std::size_t{1} << 24;  // of one node
constexpr int64_t kMostNodes = int64_t{1} << 22;
constexpr std::size_t kMostDependencies = std::size_t{1} << 25;

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kLengthBytes = 5;  // of a message's length, at most

// What the reader asks for. Files have many more.
constexpr std::array<std::string_view, 9> kAttributes = {
    "comm_dst", "comm_size",    "comm_src", "comm_tag",   "comm_type",
    "num_ops",  "involved_dim", "pg_name",  "tensor_size"};

// The bytes of a file from its start on, decompressed as they are asked for: never the whole.
class TraceBytes {
 public:
  TraceBytes(std::string_view file, const std::string& path)
      : packed_(file), path_(path), is_packed_(file.starts_with("\x1f\x8b")) {
    if (!is_packed_) {
      std::swap(held_, packed_);
    }
  }
  TraceBytes(const TraceBytes&) = delete;
  TraceBytes& operator=(const TraceBytes&) = delete;
  ~TraceBytes() {
    if (is_packed_) {
      inflateEnd(&stream_);
    }
  }

  Status open();
  // Sees to it that `held` has that many bytes, or all that are left.
  Status hold(std::size_t count);
  std::string_view held() const { return held_; }
  void drop(std::size_t count) {
    held_.remove_prefix(count);
    place_ += count;
  }
  std::size_t place() const { return place_; }  // of the first byte held

 private:
  Status inflate_block();

  std::string_view packed_;  // what of a gzip file is still to be decompressed
  std::string_view held_;
  const std::string& path_;
  bool is_packed_;
  z_stream stream_ = {};
  int state_ = Z_STREAM_END;
  std::string buffer_;  // of a gzip file: where held_ lies
  std::size_t place_ = 0;
};

Status TraceBytes::open() {
  if (is_packed_ && inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
    return invalid(one_line(path_), "no memory to decompress it");
  }
  return ok();
}

Status TraceBytes::hold(std::size_t count) {
  // zlib may keep bytes back when the last block was full.
  const auto has_more = [this] {
    return !packed_.empty() || (is_packed_ && state_ == Z_OK && stream_.avail_out == 0);
  };
  while (held_.size() < count && has_more()) {
    PLEACH_TRY(inflate_block());
  }
  return ok();
}

// Appends up to a block, of every member of the file, one after the other.
Status TraceBytes::inflate_block() {
  buffer_.erase(0, buffer_.size() - held_.size());
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + kBlockBytes);
  std::string piece(packed_.substr(0, kBlockBytes));
  stream_.next_in = reinterpret_cast<Bytef*>(piece.data());
  stream_.avail_in = static_cast<uInt>(piece.size());
  stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data() + kept);
  stream_.avail_out = static_cast<uInt>(kBlockBytes);
  if (state_ == Z_STREAM_END) {
    inflateReset(&stream_);
  }
  const bool has_input = !piece.empty();
  state_ = inflate(&stream_, Z_NO_FLUSH);
  const std::size_t taken = piece.size() - stream_.avail_in;
  const std::size_t given = kBlockBytes - stream_.avail_out;
  buffer_.resize(kept + given);
  held_ = buffer_;
  if (has_input && ((state_ != Z_OK && state_ != Z_STREAM_END) || taken + given == 0)) {
    return invalid(one_line(path_),
                   fmt::format("malformed gzip, {} bytes before its end", packed_.size()));
  }
  packed_.remove_prefix(taken);
  if (place_ + held_.size() > kMostBytes) {
    return invalid(one_line(path_), fmt::format("over {} bytes when decompressed", kMostBytes));
  }
  if (packed_.empty() && state_ != Z_STREAM_END && stream_.avail_out > 0) {
    return invalid(one_line(path_), "the gzip stream is cut off");
  }
  return ok();
}

// A varint of up to 32 bits off the front of `bytes`, or nothing.
std::optional<uint32_t> take_length(TraceBytes& bytes) {
  uint64_t value = 0;
  for (std::size_t at = 0; at < std::min(kLengthBytes, bytes.held().size()); ++at) {
    const auto byte = static_cast<uint8_t>(bytes.held()[at]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * at);
    if (byte < 0x80) {
      bytes.drop(at + 1);
      return value <= INT32_MAX ? std::optional(static_cast<uint32_t>(value)) : std::nullopt;
    }
  }
  return std::nullopt;
}

ChakraValue whole(uint64_t value) {
  return value <= INT64_MAX ? ChakraValue(static_cast<int64_t>(value)) : ChakraValue();
}

ChakraValue value_of(const chakra::Attribute& attribute) {
  using chakra::Attribute;
  switch (attribute.value_case()) {
    case Attribute::kDoubleVal:
      return attribute.double_val();
    case Attribute::kFloatVal:
      return static_cast<double>(attribute.float_val());
    case Attribute::kInt32Val:
      return int64_t{attribute.int32_val()};
    case Attribute::kInt64Val:
      return int64_t{attribute.int64_val()};
    case Attribute::kUint32Val:
      return int64_t{attribute.uint32_val()};
    case Attribute::kUint64Val:
      return whole(attribute.uint64_val());
    case Attribute::kSint32Val:
      return int64_t{attribute.sint32_val()};
    case Attribute::kSint64Val:
      return int64_t{attribute.sint64_val()};
    case Attribute::kFixed32Val:
      return int64_t{attribute.fixed32_val()};
    case Attribute::kFixed64Val:
      return whole(attribute.fixed64_val());
    case Attribute::kSfixed32Val:
      return int64_t{attribute.sfixed32_val()};
    case Attribute::kSfixed64Val:
      return int64_t{attribute.sfixed64_val()};
    case Attribute::kBoolVal:
      return attribute.bool_val();
    case Attribute::kStringVal:
      return attribute.string_val();
    case Attribute::kBytesVal:
      return attribute.bytes_val();
    case Attribute::kBoolList:
      return std::vector<bool>(attribute.bool_list().values().begin(),
                               attribute.bool_list().values().end());
    default:
      return {};
  }
}

ChakraNode node_of(const chakra::Node& message) {
  ChakraNode node = {.id = message.id(),
                     .name = message.name(),
                     .kind = static_cast<ChakraKind>(message.type()),
                     .before = {message.ctrl_deps().begin(), message.ctrl_deps().end()},
                     .duration_us = message.duration_micros(),
                     .inputs = {}};
  node.before.insert(node.before.end(), message.data_deps().begin(), message.data_deps().end());
  std::ranges::sort(node.before);
  node.before.erase(std::unique(node.before.begin(), node.before.end()), node.before.end());
  if (node.kind == ChakraKind::kMetadata) {
    node.inputs = message.inputs().values();
    return node;
  }
  for (const chakra::Attribute& attribute : message.attr()) {
    if (std::ranges::find(kAttributes, attribute.name()) != kAttributes.end()) {
      node.attributes[attribute.name()] = value_of(attribute);
    }
  }
  return node;
}

void set_value(const std::string& name, const ChakraValue& value, chakra::Attribute& attribute) {
  attribute.set_name(name);
  if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_string_val(*text);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    attribute.set_bool_val(*flag);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    if (name == "tensor_size") {
      attribute.set_uint64_val(static_cast<uint64_t>(*number));
    } else if (name == "comm_src" || name == "comm_dst" || name == "comm_tag") {
      attribute.set_int32_val(static_cast<int32_t>(*number));
    } else {
      attribute.set_int64_val(*number);
    }
  }
}

void append_message(const google::protobuf::MessageLite& message, std::string& bytes) {
  auto length = static_cast<uint32_t>(message.ByteSizeLong());
  while (length >= 0x80) {
    bytes.push_back(static_cast<char>(length | 0x80));
    length >>= 7;
  }
  bytes.push_back(static_cast<char>(length));
  message.AppendToString(&bytes);
}

}  // namespace

Result<std::vector<ChakraNode>> parse_chakra(std::string_view file, const std::string& path) {
  const auto malformed = [&path](std::size_t place, int64_t message, const std::string& what) {
    return invalid(one_line(path), fmt::format("byte {}: message {} {}", place, message, what));
  };
  TraceBytes bytes(file, path);
  PLEACH_TRY(bytes.open());
  std::vector<ChakraNode> nodes;
  std::size_t dependencies = 0;
  for (int64_t count = 0;; ++count) {
    const std::size_t place = bytes.place();
    PLEACH_TRY(bytes.hold(kLengthBytes));
    if (bytes.held().empty()) {
      break;
    }
    const std::optional<uint32_t> length = take_length(bytes);
    if (!length.has_value()) {
      return invalid(
          one_line(path),
          fmt::format("byte {}: the length of message {} is cut off or over 2^31", place, count));
    }
    PLEACH_TRY(bytes.hold(std::min<std::size_t>(*length, kMostMessageBytes)));
    const std::size_t left = bytes.held().size();
    if (left < *length && left < kMostMessageBytes) {
      return malformed(place, count, fmt::format("is of {} bytes and {} are left", *length, left));
    }
    if (*length > kMostMessageBytes) {
      return malformed(place, count,
                       fmt::format("is of {} bytes, over {}", *length, kMostMessageBytes));
    }
    if (count > 0 && *length == 0) {
      return malformed(place, count, "is an empty node");
    }
    if (count > kMostNodes || dependencies > kMostDependencies) {
      return invalid(one_line(path), fmt::format("it has more than {} nodes or {} dependencies",
                                                 kMostNodes, kMostDependencies));
    }
    chakra::Metadata metadata;
    chakra::Node node;
    google::protobuf::MessageLite& message =
        count == 0 ? static_cast<google::protobuf::MessageLite&>(metadata) : node;
    if (!message.ParseFromArray(bytes.held().data(), static_cast<int>(*length))) {
      return malformed(place, count, count == 0 ? "is no metadata" : "is no node");
    }
    if (count > 0) {
      nodes.push_back(node_of(node));
      dependencies += nodes.back().before.size();
    }
    bytes.drop(*length);
  }
  if (bytes.place() == 0) {
    return invalid(one_line(path), "the file is empty");
  }
  return nodes;
}

std::string chakra_bytes(std::span<const ChakraNode> nodes) {
  std::string bytes;
  chakra::Metadata metadata;
  metadata.set_version(std::string(kVersion));
  append_message(metadata, bytes);
  for (const ChakraNode& node : nodes) {
    chakra::Node message;
    message.set_id(node.id);
    message.set_name(node.name);
    message.set_type(static_cast<int32_t>(node.kind));
    message.mutable_data_deps()->Add(node.before.begin(), node.before.end());
    message.set_duration_micros(node.duration_us);
    for (const auto& [name, value] : node.attributes) {
      set_value(name, value, *message.add_attr());
    }
    append_message(message, bytes);
  }
  return bytes;
}

Error chakra_error(const std::string& path, const ChakraNode& node, std::string_view what,
                   ErrorCode code) {
  return Error{code,
               fmt::format("{}: node {} ({}): {}", path, node.id, pleach::quoted(node.name), what)};
}

std::vector<int32_t> KeptNodes::resolve(std::span<const int32_t> before) const {
  std::vector<int32_t> kept;
  for (const int32_t index : before) {
    const std::vector<int32_t>& stands = stands_for_[at(index)];
    kept.insert(kept.end(), stands.begin(), stands.end());
  }
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

std::string chakra_path(const std::string& prefix, int32_t rank) {
  return fmt::format("{}.{}.et", prefix, rank);
}

std::optional<int32_t> chakra_rank_above(const std::string& prefix, int32_t above) {
  const std::filesystem::path path(prefix);
  const std::string start = path.filename().string() + '.';
  std::optional<int32_t> first;
  std::error_code none;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".et")) {
      continue;
    }
    int32_t rank = 0;
    const char* const begin = name.data() + start.size();
    const char* const end = name.data() + name.size() - std::string_view(".et").size();
    const std::errc error = std::from_chars(begin, std::max(begin, end), rank).ec;
    if (error == std::errc() && rank > above && name == fmt::format("{}{}.et", start, rank)) {
      first = std::min(first.value_or(rank), rank);
    }
  }
  return first;
}

}  // namespace pleach
