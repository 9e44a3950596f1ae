#include "pleach/fabric/switch_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pleach/base/check.h"
#include "pleach/base/text.h"
#include "pleach/fabric/control_unit.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/topology/nodes_of_kind.h"
#include "pleach/topology/switch_ports.h"

namespace pleach {
namespace {

__extension__ using Wide = __int128;

// As many as the fastest lane at a switch needs.
int64_t planes_of(const Topology& topology, std::span<const NodeId> switches,
                  const PartsModel& model) {
  int64_t planes = 1;
  for (const NodeId node : switches) {
    for (const auto& links : {topology.links_in(node), topology.links_out(node)}) {
      for (const LinkId link : links) {
        const Link& of = topology.link(link);
        const Wide all_lanes = Wide{of.lanes} * model.port_bytes_per_s;
        planes = std::max(
            planes, static_cast<int64_t>((of.bandwidth_bytes_per_s + all_lanes - 1) / all_lanes));
      }
    }
  }
  return planes;
}

Wide bytes_per_s_of(const Topology& topology, NodeId node) {
  Wide sum = 0;
  for (const auto& links : {topology.links_in(node), topology.links_out(node)}) {
    for (const LinkId link : links) {
      sum += topology.link(link).bandwidth_bytes_per_s;
    }
  }
  return sum;
}

// A switch's model as it is built, whatever of it is dead.
std::string as_built(const std::string& model) {
  std::string built;
  for (const std::string_view piece : split(model, ',')) {
    if (!piece.starts_with("without_")) {
      built += (built.empty() ? "" : ",") + std::string(piece);
    }
  }
  return built;
}

void add_cells(ChipletKind& kind) {
  const Result<Selection<SwitchModel>> model = switch_models().select(kind.model);
  PLEACH_CHECK(model, "a switch of no model has parts");
  if (model->entry->name != "fred") {
    return;
  }
  const FredSize size{std::max(kind.ports, 2),
                      static_cast<int32_t>(model->options.integer("middle"))};
  const Result<FredCount> count = count_cells(size);
  PLEACH_CHECK(count, "a part of a switch has more cells than all of it");
  kind.cells = count->cells;
  kind.configuration_bits = configuration_bits(size, BitCount::kPublished);
}

class Builder {
 public:
  Builder(const Topology& topology, const PartsModel& model) : topology_(topology), model_(model) {}

  // The chiplets of one switch in one of the planes.
  void add(NodeId node, int64_t planes) {
    const SwitchPorts numbers(topology_, node);
    const int32_t ports = std::max(numbers.input_count(), numbers.output_count());
    const int32_t parts = (ports + model_.chiplet_ports - 1) / model_.chiplet_ports;
    const Wide bytes_per_s = bytes_per_s_of(topology_, node) / planes;
    for (int32_t part = 0; part < parts; ++part) {
      ChipletKind kind;
      kind.model = as_built(switch_model_of(topology_.node(node)));
      kind.ports = ports / parts + (part < ports % parts ? 1 : 0);
      kind.count = 1;
      kind.bytes_per_s = static_cast<int64_t>(
          std::min<Wide>(bytes_per_s * kind.ports / ports, std::numeric_limits<int64_t>::max()));
      add(std::move(kind));
    }
  }

  // In all planes.
  Result<std::vector<ChipletKind>> take(int64_t planes) && {
    for (ChipletKind& kind : kinds_) {
      const double edge_mm = static_cast<double>(kind.bytes_per_s) /
                             static_cast<double>(model_.io_bytes_per_s_per_mm) / 4;
      kind.area_mm2 = edge_mm * edge_mm;
      kind.memory_bytes = model_.memory_bytes;
      add_cells(kind);
    }
    PLEACH_TRY(check_countable(planes));
    for (ChipletKind& kind : kinds_) {
      kind.count *= planes;
    }
    return std::move(kinds_);
  }

 private:
  Status check_countable(int64_t planes) const {
    double chiplets = 0;
    double cells = 0;
    for (const ChipletKind& kind : kinds_) {
      chiplets += static_cast<double>(kind.count);
      cells += static_cast<double>(kind.count) * static_cast<double>(kind.cells);
    }
    const double bits = chiplets * 8 * static_cast<double>(model_.memory_bytes);
    if (std::max({chiplets, cells, bits}) * static_cast<double>(planes) < 0x1p63) {
      return ok();
    }
    return invalid(fmt::format(
        "the parts of {} cannot be counted: {} planes with ports of {} B/s, and {} "
        "bytes of configurations in each of {:.0f} chiplets of a plane",
        topology_.name(), planes, model_.port_bytes_per_s, model_.memory_bytes, chiplets));
  }

  void add(ChipletKind kind) {
    const auto alike = std::ranges::find_if(kinds_, [&](const ChipletKind& other) {
      return other.model == kind.model && other.ports == kind.ports &&
             other.bytes_per_s == kind.bytes_per_s;
    });
    if (alike == kinds_.end()) {
      kinds_.push_back(std::move(kind));
    } else {
      alike->count += kind.count;
    }
  }

  const Topology& topology_;
  const PartsModel& model_;
  std::vector<ChipletKind> kinds_;
};

}  // namespace

int64_t SwitchParts::chiplet_count() const {
  int64_t sum = 0;
  for (const ChipletKind& kind : chiplets) {
    sum += kind.count;
  }
  return sum;
}

int64_t SwitchParts::cell_count() const {
  int64_t sum = 0;
  for (const ChipletKind& kind : chiplets) {
    sum += kind.count * kind.cells;
  }
  return sum;
}

double SwitchParts::area_mm2() const {
  double sum = 0;
  for (const ChipletKind& kind : chiplets) {
    sum += static_cast<double>(kind.count) * kind.area_mm2;
  }
  return sum;
}

int64_t SwitchParts::memory_bytes() const {
  int64_t sum = 0;
  for (const ChipletKind& kind : chiplets) {
    sum += kind.count * kind.memory_bytes;
  }
  return sum;
}

Result<std::optional<SwitchParts>> parts_of(const Topology& topology, const PartsModel& model) {
  const std::vector<NodeId> switches = nodes_of_kind(topology, NodeKind::kSwitch);
  if (std::ranges::all_of(switches,
                          [&](NodeId node) { return topology.node(node).switch_model.empty(); })) {
    return std::optional<SwitchParts>();
  }
  SwitchParts parts;
  parts.planes = planes_of(topology, switches, model);
  Builder builder(topology, model);
  for (const NodeId node : switches) {
    builder.add(node, parts.planes);
  }
  PLEACH_SET(parts.chiplets, std::move(builder).take(parts.planes));
  double bytes_per_s = 0;
  for (const Link& link : topology.links()) {
    bytes_per_s += static_cast<double>(link.bandwidth_bytes_per_s);
  }
  constexpr double kJoulesPerPicojoule = 1e-12;
  parts.wire_w = bytes_per_s * 8 * kWirePicojoulesPerBit * kJoulesPerPicojoule;
  const double density = static_cast<double>(PartsModel{}.io_bytes_per_s_per_mm) /
                         static_cast<double>(model.io_bytes_per_s_per_mm);
  parts.density_share = density * density;
  const auto of_kind = [&](NodeKind kind) {
    return static_cast<double>(std::ranges::count(topology.nodes(), kind, &Node::kind));
  };
  parts.ranks_and_io_mm2 = of_kind(NodeKind::kRank) * kRankMm2 + of_kind(NodeKind::kIo) * kIoMm2;
  return std::optional(std::move(parts));
}

}  // namespace pleach
