// What the shapes share: their descriptors, the options that all of them take, and grids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/topology/shapes.h"
#include "pleach/topology/topology.h"

namespace pleach {

inline constexpr int32_t kShapeRankLimit = 65'536;
inline constexpr int32_t kShapeDimensionLimit = 16;
inline constexpr int64_t kShapeCableLimit = int64_t{1} << 23;  // as many links as a topology has

// The attributes of every link and rank of a shape, from its options.
struct ShapeSettings {
  int64_t bandwidth_bytes_per_s = 0;
  int64_t latency_ps = 0;
  int64_t overhead_ps = 0;
  int64_t switch_latency_ps = 0;
  Framing framing;

  Node rank(bool forwards) const;
  // One that passes no traffic on.
  Node io(std::string name) const;
  // One that neither reduces nor multicasts.
  Node plain_switch(std::string name) const;
  Link link(NodeId source, NodeId target) const;
};
Result<ShapeSettings> shape_settings(const Options& options);
// Those of a shape that has switches and takes switch_latency_option().
Result<ShapeSettings> switched_settings(const Options& options);

// Those of I/O nodes and their links, beside those of ranks, of a shape that takes the two options.
Result<ShapeSettings> io_settings(const std::string& shape, const ShapeSettings& settings,
                                  const Options& options);
OptionDescriptor io_bandwidth_option(const std::string& bandwidth);
OptionDescriptor io_latency_option();

// The time that an option gives, `otherwise_ps` where it is empty.
Result<int64_t> time_or(const std::string& shape, const Options& options, const std::string& name,
                        int64_t otherwise_ps);

// `link` with a kind of its own, whose figures are then the defaults of the options around it.
OptionDescriptor link_option(const std::string& kind, const std::string& summary);

// `switch_latency`.
OptionDescriptor switch_latency_option();

// true or false, and false by default; a bare word is true.
OptionDescriptor flag_option(const std::string& name, const std::string& summary);

// The number of ranks, in [2, limit]; the error starts with the shape's name.
Result<int32_t> parse_rank_count(const std::string& shape, const std::string& argument,
                                 int32_t limit = kShapeRankLimit);
// "4x4x2": sizes ≥ 1 with a product in [least_product, kShapeRankLimit].
Result<std::vector<int32_t>> parse_dimensions(const std::string& shape, const std::string& argument,
                                              int64_t least_product = 2);

// The same of as many sizes as `form` says, which is how the argument reads: "LxH".
Result<std::vector<int32_t>> parse_sizes(const std::string& shape, const std::string& argument,
                                         const std::string& form, int64_t least_product = 2);

// `count` parallel cables of a class.
Status add_cables(TopologyBuilder& builder, const Link& link, int32_t count,
                  const std::string& class_name);

// A grid of forwarding ranks, numbered row-major with the last dimension fastest. A node's links
// are added per dimension, minus before plus; in which order of dimensions, which is that of
// routes, says the `order`. A wrapping dimension of two has one cable, of one none.
enum class LinkOrder : uint8_t { kFirstDimensionFirst, kLastDimensionFirst };
Status add_grid(TopologyBuilder& builder, const std::vector<GridDimension>& dimensions,
                const ShapeSettings& settings, LinkOrder order);
// That and nothing else, the first dimension first.
Result<Topology> make_grid(const std::string& name, const std::vector<GridDimension>& dimensions,
                           const ShapeSettings& settings);

}  // namespace pleach
