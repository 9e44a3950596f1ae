#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

constexpr int32_t kGpuCount = 8;
constexpr int32_t kBoxLimit = 4096;

// All of a box's NVSwitches are one node: the hardware spreads every message over all of them.
Result<std::vector<NodeId>> add_boxes(int32_t box_count, const ShapeSettings& settings,
                                      bool in_network, TopologyBuilder& builder) {
  std::vector<NodeId> gpus;
  for (int32_t box = 0; box < box_count; ++box) {
    for (int32_t gpu = 0; gpu < kGpuCount; ++gpu) {
      Node node = settings.rank(false);
      node.name = fmt::format("box{}.gpu{}", box, gpu);
      PLEACH_ASSIGN(id, builder.add_node(std::move(node)));
      gpus.push_back(id);
    }
  }
  for (int32_t box = 0; box < box_count; ++box) {
    Node node = settings.plain_switch(fmt::format("box{}.nvswitch", box));
    node.reduces = node.multicasts = in_network;
    PLEACH_ASSIGN(hub, builder.add_node(std::move(node)));
    for (int32_t gpu = 0; gpu < kGpuCount; ++gpu) {
      const Link link = settings.link(gpus[at(box * kGpuCount + gpu)], hub);
      PLEACH_TRY(add_cables(builder, link, 1, "nvlink"));
    }
  }
  return gpus;
}

// Card i of every box on rail switch i, or all cards on one switch; rails meet at the spines.
Status add_fabric(const std::vector<NodeId>& gpus, const ShapeSettings& settings,
                  const Options& options, TopologyBuilder& builder) {
  const bool has_rails = options.text("fabric") == "rails";
  const auto cards = static_cast<int32_t>(options.integer("nics"));
  const auto spine_count = static_cast<int32_t>(options.integer("spines"));
  const int64_t card_bytes_per_s = options.number("nic_bandwidth");
  const int64_t latency_ps = options.number("nic_latency");
  std::vector<NodeId> switches;
  for (int32_t rail = 0; rail < (has_rails ? kGpuCount : 1); ++rail) {
    PLEACH_ASSIGN(id, builder.add_node(settings.plain_switch(has_rails ? fmt::format("rail{}", rail)
                                                                       : "network")));
    switches.push_back(id);
  }
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const NodeId hub = switches[gpu % switches.size()];
    PLEACH_TRY(add_cables(builder, {gpus[gpu], hub, card_bytes_per_s, latency_ps}, cards, "nic"));
  }
  if (!has_rails) {
    return ok();
  }
  const auto down = static_cast<__int128>(card_bytes_per_s) * cards *
                    static_cast<int64_t>(gpus.size() / switches.size());
  const auto up_bytes_per_s = static_cast<int64_t>(down / spine_count);
  for (int32_t spine = 0; spine < spine_count; ++spine) {
    PLEACH_ASSIGN(id, builder.add_node(settings.plain_switch(fmt::format("spine{}", spine))));
    for (const NodeId rail : switches) {
      PLEACH_TRY(add_cables(builder, {rail, id, up_bytes_per_s, latency_ps}, 1, "spine"));
    }
  }
  return ok();
}

Result<Topology> make_dgx(const std::string& model, bool in_network, const std::string& name,
                          const std::string& argument, const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(count, parse_integer(argument, model + ": box count", 1, kBoxLimit));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  const auto box_count = static_cast<int32_t>(count);
  PLEACH_ASSIGN(gpus, add_boxes(box_count, settings, in_network, builder));
  if (box_count > 1) {
    PLEACH_TRY(add_fabric(gpus, settings, options, builder));
  }
  return std::move(builder).build();
}

Result<Topology> make_a100(const std::string& name, const std::string& argument,
                           const Options& options) {
  return make_dgx("dgx_a100", false, name, argument, options);
}
Result<Topology> make_h100(const std::string& name, const std::string& argument,
                           const Options& options) {
  return make_dgx("dgx_h100", options.text("sharp") == "true", name, argument, options);
}
Result<Topology> make_b200(const std::string& name, const std::string& argument,
                           const Options& options) {
  return make_dgx("dgx_b200", options.text("sharp") == "true", name, argument, options);
}

// NVIDIA's data sheets of the DGX A100, H100 and B200: 12, 18 and 18 NVLinks of the third, fourth
// and fifth generation a GPU; a network card of 200, 400 and 400 Gb/s each. The kinds of links give
// the defaults of the options around them.
std::vector<OptionDescriptor> dgx_options(const std::string& nvlink, const std::string& nic,
                                          bool has_sharp) {
  using Kind = OptionDescriptor::Kind;
  std::vector<OptionDescriptor> options = {
      link_option(nvlink, "the kind that a GPU's NVLinks are together"),
      {"bandwidth", Kind::kBandwidth, "", "of a GPU's NVLinks together"},
      {"latency", Kind::kTime, "", "of a cable between a GPU and its NVSwitch"},
      switch_latency_option(),
      {"nic_link", Kind::kText, nic, "the kind of all links of the network"},
      {"nic_bandwidth", Kind::kBandwidth, "", "of a network card, under the framing above"},
      {"nic_latency", Kind::kTime, "", "of each cable of the network"},
      {"nics", Kind::kInteger, "1", "network cards of a GPU", {}, 1, 8},
      {"fabric",
       Kind::kChoice,
       "one_switch",
       "all cards on one switch, or those of each GPU number on a rail of their own",
       {"one_switch", "rails"}},
      {"spines", Kind::kInteger, "4", "that join the rails, without oversubscription", {}, 1, 64},
  };
  if (has_sharp) {
    options.push_back({"sharp",
                       Kind::kChoice,
                       "false",
                       "the NVSwitches reduce and multicast",
                       {"true", "false"}});
  }
  return options;
}

}  // namespace

extern const Shape kDgxA100Shape = {
    "dgx_a100", "boxes of 8 A100 GPUs: 300 GB/s to an NVSwitch, 200 Gb/s to the network", "BOXES",
    dgx_options("nvlink3", "ib_hdr", false), make_a100};

extern const Shape kDgxH100Shape = {
    "dgx_h100", "boxes of 8 H100 GPUs: 450 GB/s to an NVSwitch, 400 Gb/s to the network", "BOXES",
    dgx_options("nvlink4", "ib_ndr", true), make_h100};

extern const Shape kDgxB200Shape = {
    "dgx_b200", "boxes of 8 B200 GPUs: 900 GB/s to an NVSwitch, 400 Gb/s to the network", "BOXES",
    dgx_options("nvlink5", "ib_ndr", true), make_b200};

}  // namespace pleach
