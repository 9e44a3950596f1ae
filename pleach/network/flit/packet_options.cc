#include "pleach/network/flit/packet_options.h"

#include <fmt/format.h>

namespace pleach {
namespace {

constexpr int64_t kMostPacketBytes = int64_t{1} << 20;
constexpr int64_t kMostBufferBytes = int64_t{1} << 30;

Result<int64_t> in_range(const Options& own, const char* name, int64_t least, int64_t most) {
  const int64_t value = own.number(name);
  if (value < least || value > most) {
    return invalid(
        fmt::format("{} '{}': must be {} to {} bytes", name, own.text(name), least, most));
  }
  return value;
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
  shape.vcs = static_cast<int32_t>(own.integer("data_vcs"));
  return shape;
}

}  // namespace pleach
