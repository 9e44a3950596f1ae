#include "pleach/workload/chakra_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/workload/chakra.pb.h"

namespace pleach {
namespace {

constexpr std::string_view kVersion = "1.0.0";
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a decompressed file
constexpr int64_t kMostNodes = int64_t{1} << 22;          // of a rank
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Every member of a gzip file, one after the other.
Result<std::string> inflate_all(std::string_view bytes, const std::string& path) {
  z_stream stream = {};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
    return invalid(one_line(path), "no memory to decompress it");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  std::string text;
  std::string block(kBlockBytes, '\0');
  int state = Z_OK;
  while (!bytes.empty()) {
    std::string piece(bytes.substr(0, kBlockBytes));
    stream.next_in = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const std::size_t taken = piece.size() - stream.avail_in;
    const std::size_t given = block.size() - stream.avail_out;
    const bool moves = taken > 0 || given > 0;
    if ((state != Z_OK && state != Z_STREAM_END) || !moves) {
      return invalid(one_line(path),
                     fmt::format("malformed gzip, {} bytes before its end", bytes.size()));
    }
    bytes.remove_prefix(taken);
    text.append(block, 0, given);
    if (text.size() > kMostBytes) {
      return invalid(one_line(path), fmt::format("over {} bytes when decompressed", kMostBytes));
    }
    if (state == Z_STREAM_END && !bytes.empty()) {
      inflateReset(&stream);
    }
    // The last block may have been full, with more to come and nothing to read.
    while (state == Z_OK && bytes.empty() && stream.avail_out == 0) {
      stream.next_out = reinterpret_cast<Bytef*>(block.data());
      stream.avail_out = static_cast<uInt>(block.size());
      state = inflate(&stream, Z_NO_FLUSH);
      text.append(block, 0, block.size() - stream.avail_out);
    }
  }
  if (state != Z_STREAM_END) {
    return invalid(one_line(path), "the gzip stream is cut off");
  }
  return text;
}

// A varint of up to 32 bits off the front of `bytes`, or nothing.
std::optional<uint32_t> take_length(std::string_view& bytes) {
  uint64_t value = 0;
  for (std::size_t at = 0; at < 5 && at < bytes.size(); ++at) {
    const auto byte = static_cast<uint8_t>(bytes[at]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * at);
    if (byte < 0x80) {
      bytes.remove_prefix(at + 1);
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
    node.attributes[attribute.name()] = value_of(attribute);
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

Result<std::vector<ChakraNode>> parse_chakra(std::string_view bytes, const std::string& path) {
  std::string inflated;
  if (bytes.starts_with("\x1f\x8b")) {
    PLEACH_SET(inflated, inflate_all(bytes, path));
    bytes = inflated;
  }
  if (bytes.empty()) {
    return invalid(one_line(path), "the file is empty");
  }
  const std::size_t total = bytes.size();
  std::vector<ChakraNode> nodes;
  for (int64_t count = 0; !bytes.empty(); ++count) {
    const std::size_t place = total - bytes.size();
    const std::optional<uint32_t> length = take_length(bytes);
    if (!length.has_value()) {
      return invalid(
          one_line(path),
          fmt::format("byte {}: the length of message {} is cut off or over 2^31", place, count));
    }
    if (*length > bytes.size()) {
      return invalid(one_line(path),
                     fmt::format("byte {}: message {} is of {} bytes and {} are left", place, count,
                                 *length, bytes.size()));
    }
    if (count > 0 && *length == 0) {
      return invalid(one_line(path),
                     fmt::format("byte {}: message {} is an empty node", place, count));
    }
    if (count > kMostNodes) {
      return invalid(one_line(path), fmt::format("it has more than {} nodes", kMostNodes));
    }
    chakra::Metadata metadata;
    chakra::Node node;
    google::protobuf::MessageLite& message =
        count == 0 ? static_cast<google::protobuf::MessageLite&>(metadata) : node;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(*length))) {
      return invalid(one_line(path), fmt::format("byte {}: message {} is no {}", place, count,
                                                 count == 0 ? "metadata" : "node"));
    }
    if (count > 0) {
      nodes.push_back(node_of(node));
    }
    bytes.remove_prefix(*length);
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

}  // namespace pleach
