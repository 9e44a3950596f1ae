#include "pleach/topology/link_classes.h"

#include <algorithm>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {

std::string class_of(const Topology& topology, LinkId link) {
  if (const std::string_view given = topology.given_class(link); !given.empty()) {
    return std::string(given);
  }
  const auto [first, second] = std::minmax(topology.node(topology.link(link).source).kind,
                                           topology.node(topology.link(link).target).kind);
  return std::string(to_text(first)) + "-" + std::string(to_text(second));
}

std::vector<std::string> link_classes(const Topology& topology) {
  std::vector<std::string> classes;
  std::set<std::string> known;
  for (int32_t link = 0; link < count_of(topology.links()); ++link) {
    if (const auto [name, is_new] = known.insert(class_of(topology, LinkId{link})); is_new) {
      classes.push_back(*name);
    }
  }
  return classes;
}

Result<std::vector<LinkId>> links_of_class(const Topology& topology, std::string_view name) {
  std::vector<LinkId> links;
  for (int32_t link = 0; link < count_of(topology.links()); ++link) {
    if (name == kAllLinks || name == class_of(topology, LinkId{link})) {
      links.push_back(LinkId{link});
    }
  }
  if (links.empty()) {
    std::vector<std::string> known = link_classes(topology);
    known.insert(known.begin(), std::string(kAllLinks));
    return unknown_name("class of links", name, known);
  }
  return links;
}

}  // namespace pleach
