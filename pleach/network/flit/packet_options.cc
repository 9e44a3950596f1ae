#include "pleach/network/flit/packet_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace pleach {
namespace {

constexpr int64_t kMostPacketBytes = int64_t{1} << 20;
constexpr int64_t kMostLost = 200'000;  // of a million
constexpr int64_t kMostTimeoutPs = int64_t{1} << 40;
constexpr int64_t kMostBufferBytes = int64_t{1} << 30;

Result<int64_t> in_range(const Options& own, const char* name, int64_t least, int64_t most) {
  const int64_t value = own.number(name);
  if (value < least || value > most) {
    return invalid(
        fmt::format("{} '{}': must be {} to {} bytes", name, own.text(name), least, most));
  }
  return value;
}

// "1.25%": of a million. A ten thousandth of a percent is one.
Result<int64_t> parse_loss(const std::string& text) {
  constexpr std::size_t kDecimals = 4;
  const auto refused = [&] {
    return invalid(
        fmt::format("loss '{}': must be 0% to 20%, with at most {} decimals", text, kDecimals));
  };
  if (!text.ends_with('%')) {
    return refused();
  }
  const std::size_t point = std::min(text.find('.'), text.size() - 1);
  std::string digits = text.substr(0, point);
  std::string decimals = text.substr(point, text.size() - 1 - point);
  decimals.erase(0, 1);
  if (digits.empty() || digits.size() > 2 || decimals.size() > kDecimals ||
      (point + 1 < text.size() && decimals.empty())) {
    return refused();
  }
  decimals.resize(kDecimals, '0');
  int64_t lost = 0;
  for (const char digit : digits + decimals) {
    if (digit < '0' || digit > '9') {
      return refused();
    }
    lost = lost * 10 + (digit - '0');
  }
  if (lost > kMostLost) {
    return refused();
  }
  return lost;
}

}  // namespace

bool has_packet_routers(const Options& own) {
  return own.text("router") == "fred";
}

std::vector<OptionDescriptor> packet_options() {
  using Kind = OptionDescriptor::Kind;
  return {
      {"data_packet", Kind::kSize, "0B", "fred: payload of a packet; 0: the framing's, or 4KiB"},
      {"data_header",
       Kind::kInteger,
       "-1",
       "fred: bytes before it; -1: the framing's, or 6",
       {},
       -1,
       1 << 16},
      {"data_flit", Kind::kSize, "512B", "fred: what of a packet is in before it goes on"},
      {"data_buffer", Kind::kSize, "24KiB", "fred: of a class of traffic at a port"},
      {"port_rate", Kind::kBandwidth, "600GB/s", "fred: a faster link ends in several ports"},
      {"control_packet", Kind::kSize, "512B", "fred: payload of an acknowledgement"},
      {"control_buffer", Kind::kSize, "2KiB", "fred: of acknowledgements at a port"},
      {"ack_every",
       Kind::kInteger,
       "16",
       "fred: packets over a link for one acknowledgement; 0: none",
       {},
       0,
       1 << 20},
      {"loss", Kind::kText, "0%", "fred: of the packets on each link, 0.0001% to 20%"},
      {"timeout", Kind::kTime, "0s", "fred: without progress; 0: by the stream's round trip"},
      {"seed", Kind::kInteger, "1", "fred: of what is lost", {}, 0},
      {"data_vcs", Kind::kInteger, "3", "fred: classes of traffic at once", {}, 1, kTrafficClasses},
  };
}

Result<PacketShape> packet_shape(const Topology& topology, FlowControl flow_control,
                                 const Options& own) {
  if (flow_control == FlowControl::kMessage) {
    return Error{ErrorCode::kUnsupported,
                 "flow control 'message': router=fred has a header before every packet"};
  }
  PacketShape shape;
  const Framing& framing = topology.framing();
  const bool is_framed = framing.header_bytes > 0;
  shape.payload_bytes = is_framed ? framing.packet_bytes : shape.payload_bytes;
  shape.header_bytes = is_framed ? framing.header_bytes : shape.header_bytes;
  PLEACH_ASSIGN(payload_bytes, in_range(own, "data_packet", 0, kMostPacketBytes));
  shape.payload_bytes = payload_bytes > 0 ? payload_bytes : shape.payload_bytes;
  if (shape.payload_bytes > kMostPacketBytes) {
    return invalid(fmt::format("the network's packets of {} bytes: router=fred has at most {}",
                               shape.payload_bytes, kMostPacketBytes));
  }
  shape.header_bytes =
      own.integer("data_header") < 0 ? shape.header_bytes : own.integer("data_header");
  PLEACH_SET(shape.flit_bytes, in_range(own, "data_flit", 1, kMostPacketBytes));
  PLEACH_SET(shape.buffer_bytes,
             in_range(own, "data_buffer", shape.payload_bytes, kMostBufferBytes));
  shape.port_bytes_per_s = own.number("port_rate");
  if (shape.port_bytes_per_s < 1) {
    return invalid(fmt::format("port_rate '{}': must be more than 0", own.text("port_rate")));
  }
  PLEACH_SET(shape.control.payload_bytes, in_range(own, "control_packet", 0, kMostPacketBytes));
  PLEACH_SET(shape.control.buffer_bytes,
             in_range(own, "control_buffer", std::max<int64_t>(1, shape.control.payload_bytes),
                      kMostBufferBytes));
  shape.go_back_n.ack_every = own.integer("ack_every");
  PLEACH_SET(shape.go_back_n.lost_per_million, parse_loss(own.text("loss")));
  if (shape.go_back_n.lost_per_million > 0 && shape.go_back_n.ack_every == 0) {
    return invalid(
        fmt::format("loss '{}': what is lost is sent again only with ack_every", own.text("loss")));
  }
  shape.go_back_n.timeout_ps = own.number("timeout");
  if (shape.go_back_n.timeout_ps > kMostTimeoutPs) {
    return invalid(fmt::format("timeout '{}': must be at most 1.0995s", own.text("timeout")));
  }
  shape.go_back_n.seed = static_cast<uint64_t>(own.integer("seed"));
  shape.vcs = static_cast<int32_t>(own.integer("data_vcs"));
  return shape;
}

}  // namespace pleach
