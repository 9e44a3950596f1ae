// A wafer whose accelerators are joined as a mesh, with I/O controllers around it.
#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

struct Faces {
  std::string side;
  int32_t count = 0;
  int32_t first = 0;   // rank with the first of them
  int32_t stride = 1;  // between ranks with one
};

// Each boundary face of a rank has an I/O node: along the top from left to right, along the bottom
// likewise, down the left side, down the right one. So of a corner's two the first is above or
// below it.
Status add_io(TopologyBuilder& builder, int32_t columns, int32_t rows,
              const ShapeSettings& settings) {
  const Faces sides[] = {{"top", columns, 0, 1},
                         {"bottom", columns, (rows - 1) * columns, 1},
                         {"left", rows, 0, columns},
                         {"right", rows, columns - 1, columns}};
  std::vector<Link> cables;
  for (const auto& [side, count, first, stride] : sides) {
    for (int32_t face = 0; face < count; ++face) {
      PLEACH_ASSIGN(io, builder.add_node(settings.io(fmt::format("{}{}", side, face))));
      cables.push_back(settings.link(io, NodeId{first + face * stride}));
    }
  }
  for (const Link& cable : cables) {
    PLEACH_TRY(builder.add_cable(cable));
  }
  return ok();
}

Result<Topology> make_wafer_mesh(const std::string& name, const std::string& argument,
                                 const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(sizes, parse_sizes("wafer_mesh", argument, "COLUMNSxROWS"));
  const int32_t columns = sizes[0], rows = sizes[1];
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  const std::vector<GridDimension> dimensions = {{rows, false}, {columns, false}};
  PLEACH_TRY(add_grid(builder, dimensions, settings, LinkOrder::kLastDimensionFirst));
  if (options.text("io") == "faces") {
    PLEACH_ASSIGN(io, io_settings("wafer_mesh", settings, options));
    PLEACH_TRY(add_io(builder, columns, rows, io));
  }
  return std::move(builder).build();
}

using Kind = OptionDescriptor::Kind;

}  // namespace

// The mesh that FRED is compared with: FRED, ISCA 2025, sec. 7 and table 5.
extern const Shape kWaferMeshShape = {
    "wafer_mesh",
    "a wafer's mesh: ranks row by row, routes along rows first, an I/O node at every boundary face",
    "COLUMNSxROWS",
    {{"bandwidth", Kind::kBandwidth, "750GB/s", "of each link between ranks"},
     {"latency", Kind::kTime, "20ns", "of each link"},
     {"io",
      Kind::kChoice,
      "faces",
      "I/O nodes: at every boundary face, two at a corner; or none",
      {"faces", "none"}},
     io_bandwidth_option("128GB/s"),
     io_latency_option()},
    make_wafer_mesh};

}  // namespace pleach
