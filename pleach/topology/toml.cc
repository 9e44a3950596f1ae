// Reads topology files: TOML, as docs/topologies.md describes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <unordered_map>

// The parser asserts on some malformed keys that it reports as errors right after.
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/link_preset.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// One table of the file with a known set of keys; every error names file and line.
class Table {
 public:
  Table(const toml::table& table, const std::string& path, std::string name)
      : table_(table), path_(path), name_(std::move(name)) {}

  std::string where() const { return where(table_); }
  bool has(std::string_view key) const { return table_.contains(key); }
  std::string where(std::string_view key) const { return where(*table_.get(key)); }
  Error error(const std::string& where, const std::string& what) const {
    return invalid(fmt::format("{}: {}{}", where, name_, what));
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : table_) {
      keys.emplace_back(key.str());
    }
    return keys;
  }

  Status check_keys(std::initializer_list<std::string> known) const {
    for (const auto& [key, value] : table_) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        return error(where(value),
                     unknown_name("key", key.str(), std::vector<std::string>(known)).message);
      }
    }
    return ok();
  }

  // Text, or a whole number as the text that it is.
  Result<std::string> text(std::string_view key, std::string_view otherwise = "") const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return std::string(otherwise);
    }
    if (const auto* number = node->as_integer()) {
      return fmt::format("{}", number->get());
    }
    if (const auto* value = node->as_string()) {
      return value->get();
    }
    return error(where(*node), fmt::format("{} must be text, in quotes", key));
  }

  Result<bool> flag(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return false;
    }
    if (const auto* value = node->as_boolean()) {
      return value->get();
    }
    return error(where(*node), fmt::format("{} must be true or false", key));
  }

  // The parsed text of `key`, or nothing.
  template <typename Parse>
  Result<std::optional<int64_t>> number(std::string_view key, Parse parse) const {
    PLEACH_ASSIGN(written, text(key));
    if (!has(key)) {
      return std::optional<int64_t>();
    }
    const Result<int64_t> value = parse(written);
    if (!value) {
      return error(where(key), fmt::format("{}: {}", key, value.error().message));
    }
    return std::optional(*value);
  }

  // The table under `key`, or an empty one.
  Result<Table> table(std::string_view key) const {
    static const toml::table empty;
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return Table(empty, path_, "");
    }
    if (const toml::table* inner = node->as_table()) {
      return Table(*inner, path_, fmt::format("[{}] ", key));
    }
    return error(where(*node), fmt::format("{} must be a table, [{}]", key, key));
  }

  // The tables under `key`, written as [[key]] or as an array of inline tables.
  Result<std::vector<Table>> tables(std::string_view key) const {
    std::vector<Table> result;
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return result;
    }
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      return error(where(*node), fmt::format("{} must be a list of tables, [[{}]]", key, key));
    }
    for (const toml::node& element : *array) {
      if (!element.is_table()) {
        return error(where(element), fmt::format("{} must be a list of tables, [[{}]]", key, key));
      }
      result.emplace_back(*element.as_table(), path_, fmt::format("[[{}]] ", key));
    }
    return result;
  }

 private:
  std::string where(const toml::node& node) const {
    return fmt::format("{}:{}", path_, node.source().begin.line);
  }

  const toml::table& table_;
  const std::string& path_;
  std::string name_;  // "[defaults] ", before a message
};

// What `count = { box = 2, gpu = 8 }` repeats a table for: {box} and {gpu} in its names stand for
// numbers from 0.
struct Counter {
  std::string placeholder;  // "{box}"
  int64_t count = 1;
  int64_t number = 0;  // of the combination at hand
};

std::string replaced(std::string text, const Counter& counter) {
  const std::string number = fmt::format("{}", counter.number);
  for (std::size_t place = text.find(counter.placeholder); place != std::string::npos;
       place = text.find(counter.placeholder, place + number.size())) {
    text.replace(place, counter.placeholder.size(), number);
  }
  return text;
}

// The texts under some keys of a table, once for every combination of its counters, or just once.
class Repetition {
 public:
  // Errors: a count that is none, one that no text names, too many combinations.
  static Result<Repetition> create(const Table& table, std::initializer_list<std::string> keys) {
    constexpr int64_t kMost = int64_t{1} << 24;  // links of a topology
    Repetition repetition;
    std::string all;
    for (const std::string& key : keys) {
      PLEACH_ASSIGN(text, table.text(key));
      all += text + " ";
      repetition.texts_.push_back(std::move(text));
    }
    PLEACH_ASSIGN(counts, table.table("count"));
    int64_t combinations = 1;
    for (const std::string& name : counts.keys()) {
      const auto parse = [](const std::string& text) {
        return parse_integer(text, "value", 1, kMost);
      };
      PLEACH_ASSIGN(count, counts.number(name, parse));
      const std::string placeholder = "{" + name + "}";
      if (all.find(placeholder) == std::string::npos) {
        return table.error(counts.where(name),
                           fmt::format("count: no {} in its names", placeholder));
      }
      combinations = combinations > kMost / *count ? kMost + 1 : combinations * *count;
      repetition.counters_.push_back({placeholder, *count});
    }
    if (combinations > kMost) {
      return table.error(table.where("count"), fmt::format("count: more than {} times", kMost));
    }
    std::ranges::sort(repetition.counters_, {}, [&all](const Counter& counter) {
      return all.find(counter.placeholder);  // the first in the names varies slowest
    });
    return repetition;
  }

  // Calls visit(texts) for every combination.
  template <typename Visit>
  Status for_each(Visit visit) {
    bool goes_on = true;
    while (goes_on) {
      std::vector<std::string> texts = texts_;
      for (std::string& text : texts) {
        for (const Counter& counter : counters_) {
          text = replaced(std::move(text), counter);
        }
      }
      PLEACH_TRY(visit(texts));
      goes_on = next();
    }
    return ok();
  }

 private:
  bool next() {
    for (std::size_t place = counters_.size(); place-- > 0;) {
      Counter& counter = counters_[place];
      if (++counter.number < counter.count) {
        return true;
      }
      counter.number = 0;
    }
    return false;
  }

  std::vector<std::string> texts_;
  std::vector<Counter> counters_;
};

Result<int64_t> parse_lanes(const std::string& text) {
  return parse_integer(text, "value", 1, kMostLanes);
}

struct Defaults {
  int64_t bandwidth_bytes_per_s = 16'000'000'000;
  int64_t latency_ps = 150'000;
  int64_t overhead_ps = 0;
};

// A link of the file or of its shape, before it is built.
struct PlacedLink {
  Link link;
  std::string class_name;  // empty: none given
  std::string where;
};

// What a [[cable]] or [[link]] says of its links.
struct LinkWords {
  std::optional<int64_t> bandwidth_bytes_per_s;
  std::optional<int64_t> latency_ps;
  std::optional<int64_t> lanes;
  std::string class_name;
  std::string where;

  void apply_to(PlacedLink& placed) const {
    Link& link = placed.link;
    link.bandwidth_bytes_per_s = bandwidth_bytes_per_s.value_or(link.bandwidth_bytes_per_s);
    link.latency_ps = latency_ps.value_or(link.latency_ps);
    link.lanes = static_cast<int32_t>(lanes.value_or(link.lanes));
    placed.class_name = class_name.empty() ? placed.class_name : class_name;
    placed.where = where;
  }
};

// The links in order; those of the shape are found by their ends.
class PlacedLinks {
 public:
  void add(PlacedLink placed) { links_.push_back(std::move(placed)); }
  void add_of_shape(PlacedLink placed) {
    of_shape_[key_of(placed.link.source, placed.link.target)].push_back(links_.size());
    add(std::move(placed));
  }
  // Changes what the shape has between the ends; whether it has anything there.
  bool change(NodeId source, NodeId target, const LinkWords& words) {
    const auto existing = of_shape_.find(key_of(source, target));
    if (existing == of_shape_.end()) {
      return false;
    }
    for (const std::size_t index : existing->second) {
      words.apply_to(links_[index]);
    }
    return true;
  }
  Status build(TopologyBuilder& builder) const {
    for (const PlacedLink& placed : links_) {
      PLEACH_ASSIGN(id, builder.add_link(placed.link, placed.where));
      if (!placed.class_name.empty()) {
        PLEACH_TRY(builder.set_class(id, placed.class_name, placed.where));
      }
    }
    return ok();
  }

 private:
  static int64_t key_of(NodeId source, NodeId target) {
    return (int64_t{source.value} << 32) | int64_t{target.value};
  }

  std::vector<PlacedLink> links_;
  std::unordered_map<int64_t, std::vector<std::size_t>> of_shape_;
};

class Reader {
 public:
  Reader(const Table& root, std::string path) : root_(root), path_(std::move(path)) {}

  Result<Topology> read() {
    PLEACH_TRY(root_.check_keys(
        {"name", "shape", "routing", "seed", "defaults", "framing", "node", "link", "cable"}));
    PLEACH_TRY(read_settings());
    if (root_.has("shape")) {
      PLEACH_TRY(start_from_shape());
    }
    PLEACH_TRY(read_name());
    PLEACH_TRY(read_routing());
    PLEACH_ASSIGN(nodes, root_.tables("node"));
    for (const Table& node : nodes) {
      PLEACH_TRY(add_node(node));
    }
    PLEACH_TRY(add_links("cable", true));
    PLEACH_TRY(add_links("link", false));
    PLEACH_TRY(links_.build(builder_));
    builder_.set_framing(framing_);
    builder_.set_grid(grid_.dimensions);
    builder_.set_routing(routing_);
    Result<Topology> built = std::move(builder_).build();
    if (!built && !built.error().message.starts_with(path_ + ":")) {
      return prefixed(path_ + ":1", built.error());
    }
    return built;
  }

 private:
  Status read_name() {
    PLEACH_ASSIGN(name, root_.text("name", name_));
    if (root_.has("name") && pleach::quoted(name) != "'" + name + "'") {
      return root_.error(
          root_.where("name"),
          fmt::format("name {} is too long or has control letters", pleach::quoted(name)));
    }
    builder_.set_name(name);
    return ok();
  }

  // Of the file where it says something, else of the shape.
  Status read_routing() {
    PLEACH_ASSIGN(text, root_.text("routing", to_text(routing_.kind)));
    const Result<RoutingKind> kind = parse_routing_kind(text);
    if (!kind) {
      return root_.error(root_.where("routing"), kind.error().message);
    }
    const auto parse_seed = [](const std::string& written) {
      return parse_integer(written, "value", 0, INT64_MAX);
    };
    PLEACH_ASSIGN(seed, root_.number("seed", parse_seed));
    if (seed && *kind != RoutingKind::kEcmp) {
      return root_.error(root_.where("seed"), "seed is of routing = \"ecmp\"");
    }
    routing_ = {*kind, *kind == RoutingKind::kEcmp ? seed.value_or(routing_.seed) : 0};
    return ok();
  }

  Status read_settings() {
    PLEACH_ASSIGN(defaults, root_.table("defaults"));
    PLEACH_TRY(defaults.check_keys({"link", "bandwidth", "latency", "overhead"}));
    PLEACH_ASSIGN(preset, link_preset(defaults));
    framing_ = preset != nullptr ? preset->framing : framing_;
    PLEACH_TRY(read_framing());
    if (preset != nullptr) {
      defaults_ = {bandwidth_under(*preset, framing_), preset->latency_ps, preset->overhead_ps};
    }
    PLEACH_ASSIGN(bandwidth, defaults.number("bandwidth", parse_bandwidth_bytes_per_s));
    PLEACH_ASSIGN(latency, defaults.number("latency", parse_time_ps));
    PLEACH_ASSIGN(overhead, defaults.number("overhead", parse_time_ps));
    defaults_.bandwidth_bytes_per_s = bandwidth.value_or(defaults_.bandwidth_bytes_per_s);
    defaults_.latency_ps = latency.value_or(defaults_.latency_ps);
    defaults_.overhead_ps = overhead.value_or(defaults_.overhead_ps);
    return ok();
  }

  Status read_framing() {
    PLEACH_ASSIGN(framing, root_.table("framing"));
    PLEACH_TRY(framing.check_keys({"header", "packet"}));
    PLEACH_ASSIGN(header, framing.number("header", parse_size_bytes));
    PLEACH_ASSIGN(packet, framing.number("packet", parse_size_bytes));
    framing_.header_bytes = header.value_or(framing_.header_bytes);
    framing_.packet_bytes = packet.value_or(framing_.packet_bytes);
    return check_framing(framing_, framing.where());
  }

  // What `link` names; null: nothing.
  static Result<const LinkPreset*> link_preset(const Table& table) {
    if (!table.has("link")) {
      return nullptr;
    }
    PLEACH_ASSIGN(name, table.text("link"));
    Result<const LinkPreset*> found = link_presets().find(name);
    if (!found) {
      return table.error(table.where("link"), found.error().message);
    }
    return found;
  }

  // The shape takes the file's defaults and framing where its own options say nothing.
  Status start_from_shape() {
    const std::string where = root_.where("shape");
    PLEACH_ASSIGN(text, root_.text("shape"));
    Result<Spec> spec = parse_spec(text);
    if (!spec) {
      return root_.error(where, spec.error().message);
    }
    Spec complete = *spec;
    // A kind of link says all of it.
    if (std::ranges::none_of(spec->options, [](auto& pair) { return pair.first == "link"; })) {
      PLEACH_TRY(pass_on("defaults", {"link", "bandwidth", "latency", "overhead"}, complete));
      PLEACH_TRY(pass_on("framing", {"header", "packet"}, complete));
    }
    const Result<Topology> shape = make_shape(complete);
    if (!shape) {
      return root_.error(where, shape.error().message);
    }
    framing_ = shape->framing();
    routing_ = shape->routing();
    grid_.dimensions.assign(shape->grid().begin(), shape->grid().end());
    for (const Node& node : shape->nodes()) {
      PLEACH_TRY(builder_.add_node(node, where));
      known_names_.push_back(node.name);
    }
    for (int32_t index = 0; index < count_of(shape->links()); ++index) {
      const Link& link = shape->link(LinkId{index});
      links_.add_of_shape({link, std::string(shape->given_class(LinkId{index})), where});
    }
    return ok();
  }

  Status pass_on(std::string_view section, std::initializer_list<std::string> keys,
                 Spec& spec) const {
    PLEACH_ASSIGN(table, root_.table(section));
    for (const std::string& key : keys) {
      const bool given =
          std::ranges::any_of(spec.options, [&](const auto& pair) { return pair.first == key; });
      if (table.has(key) && !given) {
        PLEACH_ASSIGN(text, table.text(key));
        spec.options.emplace_back(key, text);
      }
    }
    return ok();
  }

  Status add_node(const Table& table) {
    PLEACH_TRY(table.check_keys({"name", "count", "kind", "forwards", "reduce", "multicast",
                                 "switch", "overhead", "latency"}));
    if (!table.has("name")) {
      return table.error(table.where(), "has no name");
    }
    Node node;
    PLEACH_ASSIGN(written_kind, table.text("kind", "rank"));
    const Result<NodeKind> kind = parse_node_kind(written_kind);
    if (!kind) {
      return table.error(table.where("kind"), kind.error().message);
    }
    node.kind = *kind;
    PLEACH_ASSIGN(forwards, table.flag("forwards"));
    PLEACH_ASSIGN(reduces, table.flag("reduce"));
    PLEACH_ASSIGN(multicasts, table.flag("multicast"));
    PLEACH_ASSIGN(overhead, table.number("overhead", parse_time_ps));
    node.forwards = forwards;
    node.reduces = reduces;
    node.multicasts = multicasts;
    PLEACH_SET(node.switch_model, table.text("switch"));
    PLEACH_ASSIGN(latency, table.number("latency", parse_time_ps));
    node.latency_ps = latency.value_or(0);
    const int64_t usual = node.kind == NodeKind::kSwitch ? 0 : defaults_.overhead_ps;
    node.overhead_ps = overhead.value_or(usual);
    if (!hangs_on(node)) {
      grid_.dimensions.clear();
    }
    PLEACH_ASSIGN(repetition, Repetition::create(table, {"name"}));
    return repetition.for_each([&](const std::vector<std::string>& texts) -> Status {
      node.name = texts[0];
      if (node.name.empty()) {
        return table.error(table.where("name"), "has an empty name");
      }
      known_names_.push_back(node.name);
      PLEACH_ASSIGN(added, builder_.add_node(node, table.where()));
      grid_.hangs.resize(added.index() + 1);
      grid_.hangs[added.index()] = hangs_on(node);
      return ok();
    });
  }

  Status add_links(const std::string& key, bool both_directions) {
    PLEACH_ASSIGN(tables, root_.tables(key));
    for (const Table& table : tables) {
      PLEACH_TRY(table.check_keys(
          {"source", "target", "count", "link", "bandwidth", "latency", "lanes", "class"}));
      LinkWords words;
      words.where = table.where();
      PLEACH_ASSIGN(preset, link_preset(table));
      PLEACH_ASSIGN(bandwidth, table.number("bandwidth", parse_bandwidth_bytes_per_s));
      PLEACH_ASSIGN(latency, table.number("latency", parse_time_ps));
      words.bandwidth_bytes_per_s = bandwidth;
      words.latency_ps = latency;
      PLEACH_SET(words.lanes, table.number("lanes", parse_lanes));
      if (preset != nullptr) {
        words.bandwidth_bytes_per_s = bandwidth.value_or(bandwidth_under(*preset, framing_));
        words.latency_ps = latency.value_or(preset->latency_ps);
      }
      PLEACH_SET(words.class_name, table.text("class", preset != nullptr ? preset->name : ""));
      if (table.has("class") && words.class_name.empty()) {
        return table.error(table.where("class"), "has an empty class");
      }
      for (const std::string end : {"source", "target"}) {
        if (!table.has(end)) {
          return table.error(table.where(), "has no " + end);
        }
      }
      PLEACH_ASSIGN(repetition, Repetition::create(table, {"source", "target"}));
      PLEACH_TRY(repetition.for_each([&](const std::vector<std::string>& ends) -> Status {
        PLEACH_ASSIGN(source, find_end(table, "source", ends[0]));
        PLEACH_ASSIGN(target, find_end(table, "target", ends[1]));
        place_link(source, target, words);
        if (both_directions) {
          place_link(target, source, words);
        }
        return ok();
      }));
    }
    return ok();
  }

  Result<NodeId> find_end(const Table& table, const std::string& key,
                          const std::string& name) const {
    const std::optional<NodeId> found = builder_.find(name);
    if (!found) {
      return table.error(table.where(key), unknown_name("node", name, known_names_).message);
    }
    return *found;
  }

  // Changes what the shape has between the two, or adds a link.
  void place_link(NodeId source, NodeId target, const LinkWords& words) {
    if (links_.change(source, target, words)) {
      return;
    }
    PlacedLink placed;
    placed.link = {source, target, defaults_.bandwidth_bytes_per_s, defaults_.latency_ps};
    words.apply_to(placed);
    links_.add(std::move(placed));
    const auto hangs = [&](NodeId node) {
      return node.index() < grid_.hangs.size() && grid_.hangs[node.index()];
    };
    if (!hangs(source) && !hangs(target)) {
      grid_.dimensions.clear();
    }
  }

  const Table& root_;
  std::string path_;
  std::string name_ = std::filesystem::path(path_).stem().string();
  Defaults defaults_;
  Framing framing_;
  Routing routing_;
  struct {
    std::vector<GridDimension> dimensions;  // of the shape, until more than I/O nodes is added
    std::vector<bool> hangs;                // by node: an I/O node that passes nothing through
  } grid_;
  TopologyBuilder builder_{""};
  std::vector<std::string> known_names_;
  PlacedLinks links_;
};

// What the parser must not see, outside of texts and comments.
struct Flaw {
  std::size_t place = std::string_view::npos;  // none
  bool is_stray = false;  // a byte beyond ASCII; else one dot of a line too many
};

// TOML has no place for bytes beyond ASCII, and the parser's test for blanks is undefined there.
// Each dot of a key is a table in a table, which it frees by recursion; it bounds brackets itself.
Flaw find_flaw(std::string_view text) {
  constexpr int32_t kMostDots = 1000;
  int32_t dots = 0;  // of the line
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view closing;  // of the comment or text that `at` is in
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    dots = rest[0] == '\n' ? 0 : dots;
    if (closing.empty()) {
      if (static_cast<unsigned char>(rest[0]) >= 0x80) {
        return {at, true};
      }
      dots += rest[0] == '.' ? 1 : 0;
      if (dots > kMostDots) {
        return {at, false};
      }
      constexpr std::array<std::string_view, 4> kQuotes = {"\"\"\"", "'''", "\"", "'"};
      const auto opens = [&](std::string_view quote) { return rest.starts_with(quote); };
      const auto found = std::ranges::find_if(kQuotes, opens);
      closing = found != kQuotes.end() ? *found : rest[0] == '#' ? "\n" : "";
      at += std::max<std::size_t>(closing.size(), 1);
    } else if (rest.starts_with(closing)) {
      at += closing.size();
      for (int more = 0; closing.size() == 3 && more < 2 && at < text.size(); ++more) {
        at += text[at] == closing[0] ? 1 : 0;  // two kQuotes may precede the closing three
      }
      closing = {};
    } else if (closing.size() == 1 && rest[0] == '\n') {
      closing = {};  // text that does not end: the parser says so
      ++at;
    } else {
      at += closing[0] == '"' && rest[0] == '\\' ? 2 : 1;
    }
  }
  return {};
}

}  // namespace

Result<Topology> parse_topology_toml(std::string_view text, const std::string& path) {
  const std::string place = one_line(path);
  if (const Flaw flaw = find_flaw(text); flaw.place != std::string_view::npos) {
    const auto line = 1 + std::ranges::count(text.substr(0, flaw.place), '\n');
    const std::string_view rest = text.substr(flaw.place);
    if (!flaw.is_stray) {
      return invalid(fmt::format("{}:{}: too many dots on one line", place, line));
    }
    return invalid(fmt::format("{}:{}: {} is in neither text nor comment", place, line,
                               quoted(rest.substr(0, rest.find('\n')))));
  }
  const toml::parse_result parsed = toml::parse(text, place);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return invalid(
        fmt::format("{}:{}: {}", place, error.source().begin.line, one_line(error.description())));
  }
  const Table root(parsed.table(), place, "");
  return Reader(root, place).read();
}

}  // namespace pleach
