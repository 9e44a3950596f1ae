#include "pleach/topology/topology.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/api/library.h"
#include "pleach/python/bindings.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"
#include "pleach/python/values.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// Refuses what is asked for after build().
struct TopologyParts {
  std::optional<TopologyBuilder> builder;

  TopologyBuilder& open() {
    if (!builder.has_value()) {
      raise(invalid("the topology has been built"));
    }
    return *builder;
  }
};

void bind_parts(nb::module_& module) {
  nb::class_<Node>(module, "Node", "A node of a topology.")
      .def_ro("name", &Node::name)
      .def_prop_ro(
          "kind", [](const Node& node) { return std::string(to_text(node.kind)); },
          "`rank`, `switch` or `io`.")
      .def_ro("forwards", &Node::forwards, "Whether a rank passes traffic through.")
      .def_ro("reduces", &Node::reduces, "Whether a switch combines streams.")
      .def_ro("multicasts", &Node::multicasts, "Whether a switch replicates streams.")
      .def_ro("overhead_ps", &Node::overhead_ps, "Of a message that it sends.")
      .def_ro("latency_ps", &Node::latency_ps, "Of what passes a switch.")
      .def("__repr__", [](const Node& node) {
        return fmt::format("<pleach.Node {} ({})>", node.name, to_text(node.kind));
      });
  nb::class_<Link>(module, "Link", "A directed link, between nodes by number.")
      .def_prop_ro("source", [](const Link& link) { return link.source.value; })
      .def_prop_ro("target", [](const Link& link) { return link.target.value; })
      .def_ro("bandwidth_bytes_per_s", &Link::bandwidth_bytes_per_s)
      .def_ro("latency_ps", &Link::latency_ps)
      .def_ro("lanes", &Link::lanes, "Ports at each end, of switches that have ports.")
      .def("__repr__", [](const Link& link) {
        return fmt::format("<pleach.Link {}->{}, {}, {}>", link.source.value, link.target.value,
                           format_bandwidth(static_cast<double>(link.bandwidth_bytes_per_s)),
                           format_time(link.latency_ps));
      });
}

void bind_topology_class(nb::module_& module) {
  nb::class_<Topology>(module, "Topology", "Nodes and directed links. Does not change.")
      .def_prop_ro("name", &Topology::name)
      .def_prop_ro("rank_count", [](const Topology& self) { return self.rank_nodes().size(); })
      .def_prop_ro("node_count", [](const Topology& self) { return self.nodes().size(); })
      .def_prop_ro("link_count", [](const Topology& self) { return self.links().size(); })
      .def_prop_ro(
          "nodes",
          [](const Topology& self) {
            return std::vector<Node>(self.nodes().begin(), self.nodes().end());
          },
          "By number.")
      .def_prop_ro(
          "links",
          [](const Topology& self) {
            return std::vector<Link>(self.links().begin(), self.links().end());
          },
          "By number.")
      .def_prop_ro(
          "rank_nodes", [](const Topology& self) { return numbers_of(self.rank_nodes()); },
          "The nodes of the ranks, by rank.")
      .def_prop_ro(
          "grid",
          [](const Topology& self) {
            std::vector<std::tuple<int32_t, bool>> dimensions;
            for (const GridDimension& dimension : self.grid()) {
              dimensions.emplace_back(dimension.size, dimension.wraps);
            }
            return dimensions;
          },
          "Size of each dimension, and whether it wraps; empty where the ranks are no grid.")
      .def_prop_ro("fingerprint", &Topology::fingerprint,
                   "Hash of all that matters to a schedule; names do not.")
      .def(
          "link_name",
          [](const Topology& self, int32_t link) {
            if (link < 0 || link >= count_of(self.links())) {
              raise(invalid(
                  fmt::format("link {}: {} has {}", link, self.name(), self.links().size())));
            }
            return link_name(self, LinkId{link});
          },
          nb::arg("link"), "`A->B`, by the names of the link's ends.")
      .def(
          "group",
          [](const Topology& self, const std::string& ranks) {
            return numbers_of(take(parse_group(self, ranks)));
          },
          nb::arg("ranks"), "The nodes of `0,1,4-7`: ranks of the topology, in this order.")
      .def("summary_json",
           [](const Topology& self) {
             return to_json(take(unlocked([&] { return summarize(self); })));
           })
      .def("__repr__", [](const Topology& self) {
        return fmt::format("<pleach.Topology {}: {} ranks, {} links>", self.name(),
                           self.rank_nodes().size(), self.links().size());
      });
  module.def(
      "parse_topology",
      [](const std::string& spec) { return take(unlocked([&] { return load_topology(spec); })); },
      nb::arg("spec"));
}

}  // namespace

void bind_topology(nb::module_& module) {
  bind_parts(module);
  bind_topology_class(module);
  nb::class_<TopologyParts>(module, "TopologyBuilder", "Collects nodes and links, and checks each.")
      .def(
          "__init__",
          [](TopologyParts* self, const std::string& name) {
            new (self) TopologyParts{TopologyBuilder(name)};
          },
          nb::arg("name"))
      .def(
          "add_node",
          [](TopologyParts& self, const std::string& name, const std::string& kind, bool forwards,
             bool reduces, bool multicasts, const Time& overhead, const Time& latency) {
            const Node node = {.name = name,
                               .kind = take(parse_node_kind(kind)),
                               .forwards = forwards,
                               .reduces = reduces,
                               .multicasts = multicasts,
                               .overhead_ps = time_ps(overhead),
                               .latency_ps = time_ps(latency)};
            return take(self.open().add_node(node)).value;
          },
          nb::arg("name") = "", nb::kw_only(), nb::arg("kind") = "rank",
          nb::arg("forwards") = false, nb::arg("reduces") = false, nb::arg("multicasts") = false,
          nb::arg("overhead") = 0, nb::arg("latency") = 0,
          "Adds a `rank`, `switch` or `io` node and returns its number, which is its name too "
          "where\n"
          "none is given. overhead: of each message that it sends, \"1us\" or picoseconds; "
          "latency:\n"
          "of what passes a switch.")
      .def(
          "add_link",
          [](TopologyParts& self, int32_t source, int32_t target, const Bandwidth& bandwidth,
             const Time& latency, int32_t lanes) {
            return take(self.open().add_link({NodeId{source}, NodeId{target},
                                              bandwidth_bytes_per_s(bandwidth), time_ps(latency),
                                              lanes}))
                .value;
          },
          nb::arg("source"), nb::arg("target"), nb::kw_only(), nb::arg("bandwidth"),
          nb::arg("latency") = 0, nb::arg("lanes") = 1,
          "Adds a directed link and returns its number. bandwidth: \"16GB/s\" or bytes per "
          "second;\n"
          "latency: \"150ns\" or picoseconds; lanes: ports at each end, of switches that have "
          "ports.")
      .def(
          "add_cable",
          [](TopologyParts& self, int32_t source, int32_t target, const Bandwidth& bandwidth,
             const Time& latency, int32_t lanes) {
            check(
                self.open().add_cable({NodeId{source}, NodeId{target},
                                       bandwidth_bytes_per_s(bandwidth), time_ps(latency), lanes}));
          },
          nb::arg("first"), nb::arg("second"), nb::kw_only(), nb::arg("bandwidth"),
          nb::arg("latency") = 0, nb::arg("lanes") = 1, "Adds a link in each direction.")
      .def(
          "build",
          [](TopologyParts& self) {
            TopologyBuilder& builder = self.open();
            Topology topology = take(unlocked([&] { return std::move(builder).build(); }));
            self.builder.reset();
            return topology;
          },
          "Checks that all ranks reach each other. Nothing can be added afterwards.");
}

}  // namespace pleach::python
