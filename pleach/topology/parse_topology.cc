#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "pleach/base/check.h"
#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/topology/changes.h"
#include "pleach/topology/link_preset.h"
#include "pleach/topology/shapes.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

constexpr int64_t kTopologyFileLimitBytes = int64_t{16} << 20;

// The routing of a file that is not given another.
constexpr std::string_view kAsWritten = "as_written";

// What may be done to any topology, of a shape or of a file.
std::vector<OptionDescriptor> change_options() {
  return {
      {"routing",
       Kind::kChoice,
       "shortest",
       "which of the shortest routes traffic takes",
       {"shortest", "spread", "ecmp", "dmodk"}},
      {"latency_spread", Kind::kText, "0%", "each link's latency varies by up to this, uniformly"},
      {"seed", Kind::kInteger, "0", "of the latency spread and of ecmp", {}, 0, INT64_MAX},
      {"without_link", Kind::kText, "", "removes 5-6 (both directions), 5>6 (one); more by +"},
      {"without_lane", Kind::kText, "", "takes one lane of a link away, named likewise"},
      {"without_node", Kind::kText, "", "removes nodes and their links: 3 or 3+7"},
      {"without_cell", Kind::kText, "", "dead cells of switches that have some: l1.0:R3+l2.0:1/D2"},
      {"without_subnetwork", Kind::kText, "",
       "dead subnetworks of switches, named likewise: l2.0:1"},
  };
}

std::vector<OptionDescriptor> file_options() {
  std::vector<OptionDescriptor> descriptors = change_options();
  OptionDescriptor& routing = descriptors.front();
  routing.default_value = kAsWritten;
  routing.allowed.insert(routing.allowed.begin(), std::string(kAsWritten));
  return descriptors;
}

// The path of a file, which may have commas where the file is there; empty: it is a shape.
std::string_view path_of(std::string_view spec) {
  const auto is_file = [](std::string_view path) {
    return path.ends_with(".toml") || path.find('/') != std::string_view::npos;
  };
  const std::string_view known = spec.substr(0, path_length(spec));
  if (is_file(known)) {
    return known;
  }
  const std::string_view path = spec.substr(0, spec.find(','));
  return is_file(path) ? path : std::string_view();
}

// "20%" or "20" → 20.
Result<int64_t> parse_percent(std::string_view text) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
  }
  return parse_integer(text, "latency_spread in percent", 0, 100);
}

Result<Topology> spread_latencies(Topology topology, const Options& options) {
  PLEACH_ASSIGN(percent, parse_percent(options.text("latency_spread")));
  if (percent == 0) {
    return topology;
  }
  Rng rng(static_cast<uint64_t>(options.integer("seed")));
  std::vector<int64_t> latency_ps;
  for (const Link& link : topology.links()) {
    const double factor = 1 + static_cast<double>(percent) / 100 * (2 * rng.unit() - 1);
    latency_ps.push_back(
        static_cast<int64_t>(std::llround(static_cast<double>(link.latency_ps) * factor)));
  }
  return with_latencies(topology, latency_ps);
}

// Finds nodes by name, or else by number.
class NodeFinder {
 public:
  explicit NodeFinder(const Topology& topology) : topology_(topology) {
    for (std::size_t node = 0; node < topology.nodes().size(); ++node) {
      by_name_.emplace(topology.nodes()[node].name, NodeId{static_cast<int32_t>(node)});
    }
  }

  std::optional<NodeId> find(std::string_view text) const {
    if (const auto found = by_name_.find(text); found != by_name_.end()) {
      return found->second;
    }
    const int64_t last = static_cast<int64_t>(topology_.nodes().size()) - 1;
    const Result<int64_t> number = parse_integer(text, "node", 0, last);
    if (!number) {
      return std::nullopt;
    }
    return NodeId{static_cast<int32_t>(*number)};
  }

  Error unknown(std::string_view text) const {
    std::vector<std::string> known;
    for (const Node& node : topology_.nodes()) {
      known.push_back(node.name);
    }
    return unknown_name("node", text, known);
  }

 private:
  const Topology& topology_;
  std::map<std::string_view, NodeId> by_name_;
};

// An error in what an option names begins with the option.
template <typename T>
Result<T> of_option(const std::string& option, Result<T> result) {
  return result ? std::move(result) : Result<T>(invalid(option, result.error().message));
}

struct NodePair {
  NodeId source;
  NodeId target;
  bool both_directions = true;
};

// "a>b" or "a-b"; as names may hold a '-', each one is tried.
Result<NodePair> parse_pair(std::string_view text, const NodeFinder& finder) {
  if (const std::size_t arrow = text.find('>'); arrow != std::string_view::npos) {
    const std::array ends = {text.substr(0, arrow), text.substr(arrow + 1)};
    for (const std::string_view end : ends) {
      if (!finder.find(end)) {
        return finder.unknown(end);
      }
    }
    return NodePair{*finder.find(ends[0]), *finder.find(ends[1]), false};
  }
  std::optional<Error> error;
  for (std::size_t dash = text.find('-'); dash != std::string_view::npos;
       dash = text.find('-', dash + 1)) {
    const std::string_view source = text.substr(0, dash);
    const std::string_view target = text.substr(dash + 1);
    if (finder.find(source) && finder.find(target)) {
      return NodePair{*finder.find(source), *finder.find(target), true};
    }
    if (!error) {
      error = finder.unknown(finder.find(source) ? target : source);
    }
  }
  return error ? *error
               : invalid(fmt::format("{} is no link: expected SOURCE-TARGET or SOURCE>TARGET",
                                     quoted(text)));
}

Result<std::vector<LinkId>> parse_links(const std::string& text, const Topology& topology,
                                        const NodeFinder& finder) {
  std::vector<LinkId> links;
  for (const std::string_view piece : split(text, '+')) {
    PLEACH_ASSIGN(pair, parse_pair(piece, finder));
    const std::size_t before = links.size();
    const auto collect = [&](NodeId source, NodeId target) {
      for (const LinkId link : topology.links_out(source)) {
        if (topology.link(link).target == target) {
          links.push_back(link);
        }
      }
    };
    collect(pair.source, pair.target);
    if (pair.both_directions) {
      collect(pair.target, pair.source);
    }
    if (links.size() == before) {
      return invalid(fmt::format("there is no link {}", quoted(piece)));
    }
  }
  return links;
}

Result<std::vector<NodeId>> parse_nodes(const std::string& text, const NodeFinder& finder) {
  std::vector<NodeId> nodes;
  for (const std::string_view piece : split(text, '+')) {
    const std::optional<NodeId> node = finder.find(piece);
    if (!node) {
      return finder.unknown(piece);
    }
    nodes.push_back(*node);
  }
  return nodes;
}

// Adds `name` to what option `key` of a switch's model has.
std::string with_part(const std::string& model, std::string_view key, std::string_view name) {
  const std::string own = fmt::format(",{}=", key);
  const std::size_t found = (model + ",").find(own);
  if (found == std::string::npos) {
    return model + own + std::string(name);
  }
  const std::size_t end = std::min(model.find(',', found + 1), model.size());
  return model.substr(0, end) + "+" + std::string(name) + model.substr(end);
}

// Tells the models of switches what of them is dead: NODE:NAME, more by +.
Status add_dead_parts(const Topology& topology, const std::string& text, std::string_view key,
                      std::vector<std::string>& models) {
  const NodeFinder finder(topology);
  for (const std::string_view piece :
       text.empty() ? std::vector<std::string_view>() : split(text, '+')) {
    const std::size_t colon = piece.rfind(':');
    if (colon == std::string_view::npos) {
      return invalid(
          fmt::format("{} does not say of which switch: expected SWITCH:NAME", quoted(piece)));
    }
    const std::optional<NodeId> node = finder.find(piece.substr(0, colon));
    if (!node) {
      return finder.unknown(piece.substr(0, colon));
    }
    if (models[node->index()].empty()) {
      return invalid(
          fmt::format("node {} is no switch of cells", quoted(topology.node(*node).name)));
    }
    const std::string_view name = piece.substr(colon + 1);
    if (name.empty()) {
      return invalid(fmt::format("{} names nothing: expected SWITCH:NAME", quoted(piece)));
    }
    models[node->index()] = with_part(models[node->index()], key, name);
  }
  return ok();
}

Result<Topology> without_dead_parts(Topology topology, const Options& options) {
  std::vector<std::string> models;
  for (const Node& node : topology.nodes()) {
    models.push_back(node.switch_model);
  }
  const std::vector<std::string> before = models;
  for (const std::string key : {"without_cell", "without_subnetwork"}) {
    PLEACH_TRY(of_option(key, add_dead_parts(topology, options.text(key), key, models)));
  }
  return models == before ? std::move(topology) : with_switch_models(topology, models);
}

// The routing of the options where they say one; a seed of 0 leaves that of the topology.
Result<Routing> chosen_routing(const Topology& topology, const Options& options) {
  Routing routing = topology.routing();
  if (const std::string& text = options.text("routing"); text != kAsWritten) {
    PLEACH_SET(routing.kind, parse_routing_kind(text));
  }
  const int64_t seed = options.integer("seed");
  routing.seed = seed != 0 ? seed : routing.seed;
  routing.seed = routing.kind == RoutingKind::kEcmp ? routing.seed : 0;
  return routing;
}

// Routing, latencies and dead parts first, then links and nodes, all named as in the whole
// topology.
Result<Topology> apply_changes(Topology topology, const Options& options) {
  PLEACH_ASSIGN(routing, chosen_routing(topology, options));
  PLEACH_ASSIGN(routed, spread_latencies(with_routing(std::move(topology), routing), options));
  PLEACH_ASSIGN(spread, without_dead_parts(std::move(routed), options));
  if (const std::string& text = options.text("without_lane"); !text.empty()) {
    PLEACH_ASSIGN(links, of_option("without_lane", parse_links(text, spread, NodeFinder(spread))));
    PLEACH_SET(spread, of_option("without_lane", without_lanes(spread, links)));
  }
  const std::string& link_text = options.text("without_link");
  const std::string& node_text = options.text("without_node");
  if (link_text.empty() && node_text.empty()) {
    return std::move(spread);
  }
  const NodeFinder finder(spread);
  std::vector<LinkId> links;
  std::vector<NodeId> nodes;
  if (!link_text.empty()) {
    PLEACH_SET(links, of_option("without_link", parse_links(link_text, spread, finder)));
  }
  if (!node_text.empty()) {
    PLEACH_SET(nodes, of_option("without_node", parse_nodes(node_text, finder)));
  }
  return without(spread, nodes, links);
}

Result<Topology> read_topology_file(const Spec& spec, const std::string& path) {
  const std::vector<OptionDescriptor> descriptors = file_options();
  PLEACH_ASSIGN(options, Options::create(descriptors, spec.options, one_line(path)));
  PLEACH_ASSIGN(text, read_text_file(path, kTopologyFileLimitBytes));
  PLEACH_ASSIGN(topology, parse_topology_toml(text, path));
  const std::string changes = options.canonical();
  if (changes.empty()) {
    return std::move(topology);
  }
  const std::string name = topology.name() + "," + changes;
  Result<Topology> changed = apply_changes(std::move(topology), options);
  if (!changed) {
    return invalid(one_line(path), changed.error().message);
  }
  return renamed(std::move(changed).value(), name);
}

}  // namespace

namespace {

using GivenOption = std::pair<std::string, std::string>;
using GivenOptions = std::span<const GivenOption>;

// The value of an option: what is given, else its default; empty for one that is not there.
std::string value_of(const std::string& name, GivenOptions given,
                     std::span<const OptionDescriptor> descriptors) {
  const auto own = std::ranges::find(given, name, &GivenOption::first);
  if (own != given.end()) {
    return own->second;
  }
  const auto found = std::ranges::find(descriptors, name, &OptionDescriptor::name);
  return found == descriptors.end() ? "" : found->default_value;
}

// The bandwidth with which a network card's links do what they do under the topology's framing.
// Sizes that no framing has are told later, with the other options.
int64_t bandwidth_of(const LinkPreset& preset, GivenOptions given,
                     std::span<const OptionDescriptor> descriptors) {
  const auto header = parse_size_bytes(value_of("header", given, descriptors));
  const auto packet = parse_size_bytes(value_of("packet", given, descriptors));
  return header && packet && check_framing({*header, *packet}, "")
             ? bandwidth_under(preset, {*header, *packet})
             : preset.bandwidth_bytes_per_s;
}

// A kind of link gives other defaults: `link` of every link, `nic_link` of the network cards'.
Status apply_link_presets(GivenOptions given, std::vector<OptionDescriptor>& descriptors) {
  for (const std::string prefix : {"", "nic_"}) {
    const std::string option = prefix + "link";
    const std::string kind = value_of(option, given, descriptors);
    if (kind.empty() && std::ranges::count(given, option, &GivenOption::first) == 0) {
      continue;
    }
    PLEACH_ASSIGN(found, link_presets().find(kind));
    const LinkPreset& preset = *found;
    const int64_t bandwidth_bytes_per_s =
        prefix.empty() ? preset.bandwidth_bytes_per_s : bandwidth_of(preset, given, descriptors);
    const std::pair<std::string_view, std::string> defaults[] = {
        {"bandwidth", fmt::format("{}B/s", bandwidth_bytes_per_s)},
        {"latency", fmt::format("{}ps", preset.latency_ps)},
        {"overhead", fmt::format("{}ps", preset.overhead_ps)},
        {"header", fmt::format("{}", preset.framing.header_bytes)},
        {"packet", fmt::format("{}", preset.framing.packet_bytes)}};
    for (const auto& [name, value] : defaults) {
      const auto own =
          std::ranges::find(descriptors, prefix + std::string(name), &OptionDescriptor::name);
      if (own != descriptors.end()) {
        own->default_value = value;
      }
    }
  }
  return ok();
}

// Before a kind of link gives others.
std::vector<OptionDescriptor> declared_options(const Shape& shape) {
  std::vector<OptionDescriptor> descriptors = {
      {"bandwidth", Kind::kBandwidth, "16GB/s", "of each link"},
      {"latency", Kind::kTime, "150ns", "of each link"},
      {"overhead", Kind::kTime, "0", "time a message occupies its connection at the source"},
      {"header", Kind::kSize, "0", "header bytes of each packet"},
      {"packet", Kind::kSize, "256", "most payload bytes of a packet"},
      {"link", Kind::kText, "", "a known kind of link, which sets the five above: ib_ndr"},
  };
  std::ranges::copy(change_options(), std::back_inserter(descriptors));
  for (const OptionDescriptor& own : shape.options) {
    const auto common = std::ranges::find(descriptors, own.name, &OptionDescriptor::name);
    if (common == descriptors.end()) {
      descriptors.push_back(own);
    } else {
      *common = own;
    }
  }
  return descriptors;
}

}  // namespace

std::vector<OptionDescriptor> shape_options(const Shape& shape) {
  std::vector<OptionDescriptor> descriptors = declared_options(shape);
  const Status applied = apply_link_presets({}, descriptors);
  PLEACH_CHECK(applied.has_value(), "a shape's own kind of link is a known one");
  return descriptors;
}

Result<Topology> make_shape(const Spec& spec) {
  PLEACH_ASSIGN(found, shapes().find(spec.name));
  const Shape& shape = *found;
  if (spec.argument.empty()) {
    return invalid(shape.name,
                   fmt::format("needs an argument, as {}:{}", shape.name, shape.argument));
  }
  const std::string base = shape.name + ":" + spec.argument;
  std::vector<OptionDescriptor> descriptors = declared_options(shape);
  if (const Status applied = apply_link_presets(spec.options, descriptors); !applied) {
    return invalid(shape.name, applied.error().message);
  }
  PLEACH_ASSIGN(options, Options::create(descriptors, spec.options, shape.name));
  const std::string canonical = options.canonical();
  PLEACH_ASSIGN(topology, shape.create(canonical.empty() ? base : base + "," + canonical,
                                       spec.argument, options));
  Result<Topology> changed = apply_changes(std::move(topology), options);
  return changed ? std::move(changed) : invalid(base, changed.error().message);
}

Result<Topology> parse_topology(std::string_view spec) {
  const std::string path(path_of(spec));
  if (path.empty()) {
    PLEACH_ASSIGN(parsed, parse_spec(spec));
    return make_shape(parsed);
  }
  // The path may hold colons, which parse_spec would take for the start of an argument.
  PLEACH_ASSIGN(parsed, parse_spec("file" + std::string(spec.substr(path.size()))));
  return read_topology_file(parsed, path);
}

}  // namespace pleach
