#include "pleach/topology/shapes/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"

namespace pleach {

Node ShapeSettings::rank(bool forwards) const {
  Node node;
  node.forwards = forwards;
  node.overhead_ps = overhead_ps;
  return node;
}

Node ShapeSettings::io(std::string name) const {
  Node node;
  node.kind = NodeKind::kIo;
  node.name = std::move(name);
  node.overhead_ps = overhead_ps;
  return node;
}

Node ShapeSettings::plain_switch(std::string name) const {
  Node node;
  node.kind = NodeKind::kSwitch;
  node.name = std::move(name);
  node.latency_ps = switch_latency_ps;
  return node;
}

Link ShapeSettings::link(NodeId source, NodeId target) const {
  return Link{source, target, bandwidth_bytes_per_s, latency_ps};
}

Result<ShapeSettings> shape_settings(const Options& options) {
  ShapeSettings settings;
  settings.bandwidth_bytes_per_s = options.number("bandwidth");
  settings.latency_ps = options.number("latency");
  settings.overhead_ps = options.number("overhead");
  settings.framing = {options.number("header"), options.number("packet")};
  PLEACH_TRY(check_framing(settings.framing, ""));
  return settings;
}

Result<ShapeSettings> switched_settings(const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  settings.switch_latency_ps = options.number("switch_latency");
  return settings;
}

Result<ShapeSettings> io_settings(const std::string& shape, const ShapeSettings& settings,
                                  const Options& options) {
  ShapeSettings io = settings;
  io.bandwidth_bytes_per_s = options.number("io_bandwidth");
  PLEACH_SET(io.latency_ps, time_or(shape, options, "io_latency", settings.latency_ps));
  return io;
}

OptionDescriptor io_bandwidth_option(const std::string& bandwidth) {
  return {"io_bandwidth", OptionDescriptor::Kind::kBandwidth, bandwidth, "of an I/O node's link"};
}

OptionDescriptor io_latency_option() {
  return {"io_latency", OptionDescriptor::Kind::kText, "",
          "of an I/O node's link; empty: as latency"};
}

Result<int64_t> time_or(const std::string& shape, const Options& options, const std::string& name,
                        int64_t otherwise_ps) {
  const std::string& text = options.text(name);
  if (text.empty()) {
    return otherwise_ps;
  }
  const Result<int64_t> time_ps = parse_time_ps(text);
  return time_ps ? time_ps
                 : invalid(fmt::format("{}: option {}: {}", shape, pleach::quoted(name),
                                       time_ps.error().message));
}

OptionDescriptor switch_latency_option() {
  return {"switch_latency", OptionDescriptor::Kind::kTime, "0", "of each switch"};
}

OptionDescriptor flag_option(const std::string& name, const std::string& summary) {
  return {name, OptionDescriptor::Kind::kChoice, "false", summary, {"true", "false"}};
}

OptionDescriptor link_option(const std::string& kind, const std::string& summary) {
  return {"link", OptionDescriptor::Kind::kText, kind, summary};
}

Result<int32_t> parse_rank_count(const std::string& shape, const std::string& argument,
                                 int32_t limit) {
  PLEACH_ASSIGN(count, parse_integer(argument, shape + ": rank count", 2, limit));
  return static_cast<int32_t>(count);
}

Result<std::vector<int32_t>> parse_dimensions(const std::string& shape, const std::string& argument,
                                              int64_t least_product) {
  const auto error = [&](const std::string& what) {
    return invalid(fmt::format("{}: {} {}", shape, pleach::quoted(argument), what));
  };
  const std::vector<std::string_view> pieces = split(argument, 'x');
  if (pieces.size() > at(kShapeDimensionLimit)) {
    return error(fmt::format("has more than {} dimensions", kShapeDimensionLimit));
  }
  std::vector<int32_t> sizes;
  int64_t rank_count = 1;
  for (const std::string_view piece : pieces) {
    PLEACH_ASSIGN(size, parse_integer(piece, shape + ": dimension", 1, kShapeRankLimit));
    rank_count *= size;
    if (rank_count > kShapeRankLimit) {
      return error(fmt::format("has more than {} ranks", kShapeRankLimit));
    }
    sizes.push_back(static_cast<int32_t>(size));
  }
  if (rank_count < least_product) {
    return error(fmt::format("has fewer than {} ranks", least_product));
  }
  return sizes;
}

Result<std::vector<int32_t>> parse_sizes(const std::string& shape, const std::string& argument,
                                         const std::string& form, int64_t least_product) {
  PLEACH_ASSIGN(sizes, parse_dimensions(shape, argument, least_product));
  if (sizes.size() != split(form, 'x').size()) {
    return invalid(
        fmt::format("{}: {} is not of the form {}", shape, pleach::quoted(argument), form));
  }
  return sizes;
}

Status add_cables(TopologyBuilder& builder, const Link& link, int32_t count,
                  const std::string& class_name) {
  Link back = link;
  std::swap(back.source, back.target);
  for (int32_t cable = 0; cable < count; ++cable) {
    for (const Link& direction : {link, back}) {
      PLEACH_ASSIGN(id, builder.add_link(direction));
      PLEACH_TRY(builder.set_class(id, class_name));
    }
  }
  return ok();
}

Status add_grid(TopologyBuilder& builder, const std::vector<GridDimension>& dimensions,
                const ShapeSettings& settings, LinkOrder order) {
  struct Axis {
    GridDimension dimension;
    int32_t stride = 1;
  };
  std::vector<Axis> axes;
  int32_t rank_count = 1;
  for (const GridDimension& dimension : std::views::reverse(dimensions)) {
    axes.push_back({dimension, rank_count});
    rank_count *= dimension.size;
  }
  if (order == LinkOrder::kFirstDimensionFirst) {
    std::ranges::reverse(axes);
  }
  builder.set_grid(dimensions);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(true)));
  }
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    for (const auto& [dimension, stride] : axes) {
      const auto [size, wraps] = dimension;
      const int32_t at = rank / stride % size;
      const bool around = wraps && size > 2;
      if (at > 0 || around) {
        const int32_t minus = rank + (at > 0 ? -stride : (size - 1) * stride);
        PLEACH_TRY(builder.add_link(settings.link(NodeId{rank}, NodeId{minus})));
      }
      if (at < size - 1 || around) {
        const int32_t plus = rank + (at < size - 1 ? stride : -(size - 1) * stride);
        PLEACH_TRY(builder.add_link(settings.link(NodeId{rank}, NodeId{plus})));
      }
    }
  }
  return ok();
}

Result<Topology> make_grid(const std::string& name, const std::vector<GridDimension>& dimensions,
                           const ShapeSettings& settings) {
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  PLEACH_TRY(add_grid(builder, dimensions, settings, LinkOrder::kFirstDimensionFirst));
  return std::move(builder).build();
}

}  // namespace pleach
