#include "pleach/network/flit/flit_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/network/flit/packet_options.h"

namespace pleach {
namespace {

// Some rank hangs on a switch: its interface is at the other end of its link.
bool is_indirect(const Topology& topology) {
  return std::ranges::any_of(topology.links(), [&](const Link& link) {
    return topology.node(link.source).kind == NodeKind::kRank &&
           topology.node(link.target).kind == NodeKind::kSwitch;
  });
}

int32_t most_links(const Topology& topology) {
  std::size_t most = 1;
  for (const NodeId node : topology.rank_nodes()) {
    most = std::max({most, topology.links_out(node).size(), topology.links_in(node).size()});
  }
  return static_cast<int32_t>(most);
}

std::vector<OptionDescriptor> queued_options() {
  using Kind = OptionDescriptor::Kind;
  return {
      {"vcs", Kind::kInteger, "4", "virtual channels of a channel", {}, 1, 64},
      {"buffer", Kind::kInteger, "318", "flits that a VC holds", {}, 1, INT16_MAX},
      {"flit", Kind::kSize, "16B", "bytes of a flit: with the fastest link, the cycle"},
      {"packet", Kind::kSize, "0B", "payload of a packet; 0: the network's framing, or 256B"},
      {"header",
       Kind::kInteger,
       "-1",
       "flits before it; -1: the network's framing, or 1",
       {},
       -1,
       64},
      {"routing_delay",
       Kind::kInteger,
       "-1",
       "cycles; -1: 0, on indirect networks 1",
       {},
       -1,
       1024},
      {"vc_delay", Kind::kInteger, "1", "cycles of VC allocation", {}, 1, 1024},
      {"switch_delay", Kind::kInteger, "1", "cycles of switch allocation", {}, 1, 1024},
      {"credit_delay", Kind::kInteger, "1", "cycles until a credit counts", {}, 0, 1024},
      {"iterations", Kind::kInteger, "1", "of the allocators", {}, 1, 64},
      {"priority",
       Kind::kChoice,
       "step",
       "among the VCs of an input: the earliest step",
       {"step", "none"}},
      {"deadlock", Kind::kChoice, "refuse", "where VCs do not suffice", {"refuse", "allow"}},
      {"interfaces",
       Kind::kInteger,
       "0",
       "of a rank; 0: 4 on grids of two dimensions, else 1",
       {},
       0,
       64},
      {"binding",
       Kind::kChoice,
       "any",
       "which interface sends: any, or one for each link of a rank",
       {"any", "link"}},
      {"interface",
       Kind::kChoice,
       "ordered",
       "reductions in the schedule's order, or all turns as MultiTree's simulator takes them",
       {"ordered", "published"}},
      {"message_buffer", Kind::kInteger, "32", "sub-messages an interface holds", {}, 1, 1 << 20},
      {"send_buffer", Kind::kInteger, "16", "sub-messages it holds behind those", {}, 1, 1 << 20},
      {"queue",
       Kind::kInteger,
       "0",
       "flits it holds behind those; 0: 80, on indirect networks 318",
       {},
       0,
       1 << 20},
      {"energy", Kind::kText, "", "TOML file of picojoules per event: adds energy_j"},
      {"reduction",
       Kind::kChoice,
       "whole",
       "whole messages, or streamed as they come",
       {"whole", "streamed"}},
  };
}

}  // namespace

std::vector<OptionDescriptor> flit_model_options() {
  std::vector<OptionDescriptor> options = {
      {"router",
       OptionDescriptor::Kind::kChoice,
       "queued",
       "what switches are: input-queued routers, or FRED's, packet by packet",
       {"queued", "fred"}}};
  for (const auto& more : {queued_options(), packet_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

Status check_router(const Options& own) {
  const bool is_fred = has_packet_routers(own);
  for (const OptionDescriptor& option : is_fred ? queued_options() : packet_options()) {
    if (own.text(option.name) != option.default_value) {
      return invalid(fmt::format("{} '{}': only with router={}", option.name, own.text(option.name),
                                 is_fred ? "queued" : "fred"));
    }
  }
  return ok();
}

Result<FlitOptions> flit_options(const Topology& topology, FlowControl flow_control,
                                 const Options& own) {
  const auto integer = [&](const char* name) { return static_cast<int32_t>(own.integer(name)); };
  const auto given = [&](const char* name, int32_t unset, int32_t otherwise) {
    return integer(name) == unset ? otherwise : integer(name);
  };
  const bool indirect = is_indirect(topology);
  const Framing& framing = topology.framing();
  FlitOptions options;
  InterfaceShape& shape = options.shape;
  shape.flow_control = flow_control;
  shape.flit_bytes = own.number("flit");
  if (shape.flit_bytes < 1) {
    return invalid("flit '0': a flit has at least a byte");
  }
  const bool is_framed = framing.header_bytes > 0;
  shape.packet_bytes = own.number("packet");
  if (shape.packet_bytes == 0) {
    shape.packet_bytes = is_framed ? framing.packet_bytes : 256;
  }
  if (shape.flit_bytes > shape.packet_bytes) {
    return invalid(fmt::format("flit '{}': larger than a packet of {} bytes", shape.flit_bytes,
                               shape.packet_bytes));
  }
  const int64_t framed = (framing.header_bytes + shape.flit_bytes - 1) / shape.flit_bytes;
  shape.header_flits = given("header", -1, is_framed ? static_cast<int32_t>(framed) : 1);
  shape.message_places = integer("message_buffer");
  shape.send_places = integer("send_buffer");
  shape.queue_flits = given("queue", 0, indirect ? 318 : 80);

  RouterOptions& routers = options.routers;
  routers.vcs = integer("vcs");
  routers.buffer = integer("buffer");
  routers.routing_delay = given("routing_delay", -1, indirect ? 1 : 0);
  routers.vc_delay = integer("vc_delay");
  routers.switch_delay = integer("switch_delay");
  routers.credit_delay = integer("credit_delay");
  routers.iterations = integer("iterations");
  routers.by_priority = own.text("priority") == "step";
  const int64_t room = shape.packet_flits() + shape.header_flits;
  if (room > routers.buffer) {
    return invalid(
        fmt::format("buffer '{}': smaller than a packet of {} flits, which would never "
                    "be admitted",
                    routers.buffer, room));
  }
  routers.room = static_cast<int32_t>(room);

  options.binds_links = own.text("binding") == "link";
  options.interfaces = given("interfaces", 0, topology.grid().size() == 2 ? 4 : 1);
  if (options.binds_links) {
    if (integer("interfaces") != 0) {
      return invalid("binding 'link' has an interface for each link; leave out interfaces");
    }
    options.interfaces = most_links(topology);
  }
  options.is_published = own.text("interface") == "published";
  shape.fills_queue = !options.is_published;
  options.streams_reductions = own.text("reduction") == "streamed";
  options.allow_deadlock = own.text("deadlock") == "allow";
  if (!own.text("energy").empty()) {
    PLEACH_SET(options.energies, read_event_energies(own.text("energy")));
  }
  return options;
}

}  // namespace pleach
