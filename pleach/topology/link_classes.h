// Classes of links: the names by which some of a topology's links are meant, as "nic".
//
// Every link has one class: the one that its file gave it, else the kinds of its ends, as
// "rank-switch", in the order rank, switch, io and the same in both directions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// What means every link; no class is called so.
inline constexpr std::string_view kAllLinks = "all";

// "nic", "rank-switch".
std::string class_of(const Topology& topology, LinkId link);

// The classes that the links have, in the order of their first links.
std::vector<std::string> link_classes(const Topology& topology);

// The links of a class, or all of them, ascending.
// Errors: kInvalidArgument: a class that no link has; lists "all" and those there are.
Result<std::vector<LinkId>> links_of_class(const Topology& topology, std::string_view name);

}  // namespace pleach
