// Shapes: named topologies and their specs (`torus:4x4,bandwidth=16GB/s,without_link=5-6`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One shape. `options` are those it has beyond the ones every shape takes (bandwidth, latency,
// overhead, header, packet, link, routing, latency_spread, seed, without_link, without_lane,
// without_node), or has with another default or meaning.
struct Shape {
  std::string name;
  std::string summary;
  std::string argument;  // how the part after the colon reads, for help: "AxBx..."
  std::vector<OptionDescriptor> options;
  Result<Topology> (*create)(const std::string& name, const std::string& argument,
                             const Options& options);

  std::string title() const { return name + ":" + argument; }
};

Registry<Shape> shapes();

// All options of a shape: its own and those that every shape takes.
std::vector<OptionDescriptor> shape_options(const Shape& shape);

// The topology of a spec whose name is a shape's. Errors as parse_topology.
Result<Topology> make_shape(const Spec& spec);

// A spec, or the path of a topology file (ends in .toml, or contains a '/'; latency_spread, seed,
// without_link and without_node may follow). docs/topologies.md describes both.
// Errors: kInvalidArgument, kIo: one line naming the offending value.
Result<Topology> parse_topology(std::string_view spec);

// The TOML form; see docs/topologies.md. `path` is used in messages only.
Result<Topology> parse_topology_toml(std::string_view text, const std::string& path);

}  // namespace pleach
