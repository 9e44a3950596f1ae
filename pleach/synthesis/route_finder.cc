#include "pleach/synthesis/route_finder.h"

#include <fmt/format.h>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr int64_t kRouteLinkLimit = int64_t{1} << 27;
constexpr int64_t kDistanceLimit = int64_t{1} << 28;  // entries of the router's distance fields

}  // namespace

OptionDescriptor stripes_option() {
  OptionDescriptor option = {.name = "stripes",
                             .kind = OptionDescriptor::Kind::kChoice,
                             .default_value = "auto",
                             .summary =
                                 "parts of a transfer, which take the links side by side out "
                                 "of a rank; auto: as many as there are",
                             .allowed = {"auto"}};
  for (int32_t count = 1; count <= kStripeLimit; ++count) {
    option.allowed.push_back(std::to_string(count));
  }
  return option;
}

RouteFinder::RouteFinder(const Topology& topology)
    : topology_(topology),
      router_(topology),
      route_of_link_(topology.links().size(), kNoRoute),
      link_to_(topology.nodes().size()) {}

LinkId RouteFinder::direct_link(NodeId source, NodeId target) {
  if (direct_source_ != source) {
    if (direct_source_.value >= 0) {
      for (const LinkId link : topology_.links_out(direct_source_)) {
        link_to_[topology_.link(link).target.index()] = LinkId{};
      }
    }
    direct_source_ = source;
    for (const LinkId link : topology_.links_out(source)) {
      LinkId& first = link_to_[topology_.link(link).target.index()];
      first = first.value < 0 ? link : first;
    }
  }
  return link_to_[target.index()];
}

int32_t RouteFinder::add(std::span<const LinkId> links, RouteTable& routes) {
  link_count_ += static_cast<int64_t>(links.size());
  if (link_count_ > kRouteLinkLimit && !error_) {
    error_ = Error{ErrorCode::kInfeasible,
                   fmt::format("the routes would have more than {} links", kRouteLinkLimit)};
  }
  return error_ ? kNoRoute : routes.add(links);
}

int32_t RouteFinder::route(LinkId link, RouteTable& routes) {
  int32_t& route = route_of_link_[link.index()];
  if (route == kNoRoute) {
    route = add(std::span(&link, 1), routes);
  }
  return route;
}

int32_t RouteFinder::route(std::span<const LinkId> links, RouteTable& routes) {
  if (links.size() == 1) {
    return route(links.front(), routes);
  }
  const auto [known, is_new] = route_of_links_.try_emplace({links.begin(), links.end()}, kNoRoute);
  if (is_new) {
    known->second = add(links, routes);
  }
  return known->second;
}

int32_t RouteFinder::route(NodeId source, NodeId target, RouteTable& routes, int32_t stripe) {
  if (leaves_open()) {
    return kNoRoute;
  }
  const bool takes_first = stripe == 0 && topology_.routing().kind == RoutingKind::kShortest;
  const LinkId link = takes_first ? direct_link(source, target) : LinkId{};
  if (link.value >= 0) {
    return route(link, routes);
  }
  const int64_t pair = static_cast<int64_t>(source.value) << 32 | target.value;
  std::unordered_map<int64_t, int32_t>& route_of_pair = route_of_pair_[at(stripe)];
  if (const auto known = route_of_pair.find(pair); known != route_of_pair.end()) {
    return known->second;
  }
  const int32_t route = error_ ? kNoRoute : find(source, target, stripe, routes);
  if (!error_) {
    route_of_pair.emplace(pair, route);
  }
  return route;
}

int32_t RouteFinder::find(NodeId source, NodeId target, int32_t stripe, RouteTable& routes) {
  routed_targets_.insert(target.value);
  const auto node_count = static_cast<int64_t>(topology_.nodes().size());
  if (static_cast<int64_t>(routed_targets_.size()) * node_count > kDistanceLimit) {
    error_ = Error{ErrorCode::kInfeasible,
                   fmt::format("it would take routes over several links to more than {} of the {} "
                               "nodes",
                               routed_targets_.size() - 1, node_count)};
    return kNoRoute;
  }
  const Result<std::vector<LinkId>> links = router_.route(source, target, stripe);
  if (!links) {
    error_ = links.error();
    return kNoRoute;
  }
  return links->size() == 1 ? route(links->front(), routes) : add(*links, routes);
}

}  // namespace pleach
