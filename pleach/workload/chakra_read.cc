#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/workload/chakra.h"
#include "pleach/workload/chakra_file.h"

namespace pleach {
namespace {

constexpr int64_t kMostFileBytes = int64_t{1} << 30;

constexpr int64_t kPicosecondsPerMicrosecond = 1'000'000;
constexpr uint64_t kMostMicroseconds = kLongestPs / kPicosecondsPerMicrosecond;
constexpr std::size_t kMostDependencies = std::size_t{1} << 26;  // of a rank
constexpr std::size_t kNamedNodes = 8;                           // of a cycle, in a message
constexpr std::string_view kWorld = "all ranks";

// Indices that nodes wait for, by node; ids turned into indices.
using Dependencies = std::vector<std::vector<int32_t>>;

Result<Dependencies> find_dependencies(const std::vector<ChakraNode>& nodes,
                                       const std::string& path) {
  std::unordered_map<uint64_t, int32_t> index_of;
  for (const ChakraNode& node : nodes) {
    if (!index_of.emplace(node.id, count_of(index_of)).second) {
      return chakra_error(path, node, "another node has the same id");
    }
  }
  Dependencies dependencies(nodes.size());
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    for (const uint64_t id : nodes[index].before) {
      const auto found = index_of.find(id);
      if (found == index_of.end()) {
        return chakra_error(path, nodes[index],
                            fmt::format("waits for node {}, which is not there", id));
      }
      dependencies[index].push_back(found->second);
    }
  }
  return dependencies;
}

// One of the cycles among the nodes that still wait for `missing` others.
Error cycle_error(const std::vector<ChakraNode>& nodes, const Dependencies& dependencies,
                  const std::vector<int32_t>& missing, const std::string& path) {
  const auto waits = [&](int32_t index) { return missing[at(index)] > 0; };
  auto current = static_cast<int32_t>(
      std::ranges::find_if(missing, [](int32_t count) { return count > 0; }) - missing.begin());
  std::vector<int32_t> walk;
  std::unordered_map<int32_t, std::size_t> place;
  while (place.emplace(current, walk.size()).second) {
    walk.push_back(current);
    // Some of what a waiting node waits for waits itself.
    current = *std::ranges::find_if(dependencies[at(current)], waits);
  }
  std::vector<std::string> names;
  for (std::size_t step = place[current]; step < walk.size() && names.size() < kNamedNodes;
       ++step) {
    const ChakraNode& node = nodes[at(walk[step])];
    names.push_back(fmt::format("{} ({})", node.id, pleach::quoted(node.name)));
  }
  const std::size_t length = walk.size() - place[current];
  return invalid(fmt::format("{}: {} nodes wait for each other: {}{}", path, length,
                             join(names, ", "), length > names.size() ? ", ..." : ""));
}

// An order in which every node follows what it waits for: the file's own, as far as possible.
Result<std::vector<int32_t>> sort_nodes(const std::vector<ChakraNode>& nodes,
                                        const Dependencies& dependencies, const std::string& path) {
  std::vector<int32_t> missing(nodes.size());
  std::vector<std::vector<int32_t>> followers(nodes.size());
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free;
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    missing[index] = count_of(dependencies[index]);
    for (const int32_t before : dependencies[index]) {
      followers[at(before)].push_back(static_cast<int32_t>(index));
    }
    if (missing[index] == 0) {
      free.push(static_cast<int32_t>(index));
    }
  }
  std::vector<int32_t> order;
  while (!free.empty()) {
    order.push_back(free.top());
    free.pop();
    for (const int32_t follower : followers[at(order.back())]) {
      if (--missing[at(follower)] == 0) {
        free.push(follower);
      }
    }
  }
  if (order.size() < nodes.size()) {
    return cycle_error(nodes, dependencies, missing, path);
  }
  return order;
}

// The collective of a number of the format.
Result<CollectiveKind> collective_of(int64_t type, const std::string& path,
                                     const ChakraNode& node) {
  const auto known = std::ranges::find(kChakraCollectives, type, &ChakraCollective::number);
  if (known != kChakraCollectives.end()) {
    return known->kind;
  }
  if (type == kChakraGather || type == kChakraScatter) {
    return chakra_error(
        path, node,
        fmt::format("{} is not supported", type == kChakraGather ? "gather" : "scatter"),
        ErrorCode::kUnsupported);
  }
  return chakra_error(path, node, fmt::format("there is no collective {}", type));
}

// Reads what a node says; every error names it.
class NodeReader {
 public:
  NodeReader(const std::string& path, const ChakraNode& node, const ChakraOptions& options)
      : path_(path), node_(node), options_(options) {}

  Error error(const std::string& what) const { return chakra_error(path_, node_, what); }
  bool has(std::string_view key) const { return node_.attributes.contains(key); }

  Result<std::optional<int64_t>> number(std::string_view key, int64_t least = 0,
                                        int64_t most = INT64_MAX) const {
    const auto found = node_.attributes.find(key);
    if (found == node_.attributes.end()) {
      return std::optional<int64_t>();
    }
    const auto* value = std::get_if<int64_t>(&found->second);
    if (value == nullptr || *value < least || *value > most) {
      return error(value == nullptr
                       ? fmt::format("{} is no whole number of 64 bits", key)
                       : fmt::format("{} of {} is not in [{}, {}]", key, *value, least, most));
    }
    return std::optional(*value);
  }
  Result<int64_t> needed(std::string_view key, int64_t least = 0, int64_t most = INT64_MAX) const {
    PLEACH_ASSIGN(value, number(key, least, most));
    if (!value.has_value()) {
      return error(fmt::format("it has no {}", key));
    }
    return *value;
  }

  // Of computation, loads and stores.
  Result<int64_t> duration_ps() const {
    if (node_.duration_us > kMostMicroseconds) {
      return error(fmt::format("a duration of {} us is over {}", node_.duration_us, kLongestText));
    }
    if (node_.duration_us > 0) {
      return static_cast<int64_t>(node_.duration_us) * kPicosecondsPerMicrosecond;
    }
    const bool computes = node_.kind == ChakraKind::kCompute;
    double seconds = 0;
    PLEACH_ASSIGN(operations, number("num_ops"));
    if (computes && operations.value_or(0) > 0) {
      if (!(options_.operations_per_s > 0)) {
        return error(fmt::format("no duration, and no operations per second for its {} operations",
                                 *operations));
      }
      seconds = static_cast<double>(*operations) / options_.operations_per_s;
    }
    PLEACH_ASSIGN(bytes, number("tensor_size"));
    if (bytes.value_or(0) > 0) {
      if (!(options_.memory_bytes_per_s > 0)) {
        return error(fmt::format("no duration, and no memory bandwidth for its {} bytes", *bytes));
      }
      seconds = std::max(seconds, static_cast<double>(*bytes) / options_.memory_bytes_per_s);
    }
    if (seconds * 1e6 > static_cast<double>(kMostMicroseconds)) {
      return error(fmt::format("its duration of {:.3g} s is over {}", seconds, kLongestText));
    }
    return std::llround(seconds * static_cast<double>(kPicosecondsPerSecond));
  }

  // The group's name; nothing: all ranks.
  Result<std::optional<std::string>> group() const {
    const auto found = node_.attributes.find("pg_name");
    if (found != node_.attributes.end()) {
      const auto* name = std::get_if<std::string>(&found->second);
      if (name == nullptr) {
        return error("pg_name is no text");
      }
      if (!name->empty()) {
        return std::optional(*name);
      }
    }
    const auto dimensions = node_.attributes.find("involved_dim");
    if (dimensions != node_.attributes.end()) {
      const auto* involved = std::get_if<std::vector<bool>>(&dimensions->second);
      if (involved == nullptr) {
        return error("involved_dim is no list of bool");
      }
      if (std::ranges::find(*involved, false) != involved->end()) {
        return chakra_error(path_, node_,
                            "a collective along some dimensions of a topology (involved_dim) is "
                            "not supported; name its group (pg_name)",
                            ErrorCode::kUnsupported);
      }
    }
    return std::optional<std::string>();
  }

 private:
  const std::string& path_;
  const ChakraNode& node_;
  const ChakraOptions& options_;
};

class TraceReader {
 public:
  TraceReader(const std::string& prefix, const ChakraOptions& options)
      : prefix_(prefix), options_(options) {}

  Result<Trace> read() {
    PLEACH_SET(trace_.rank_count, count_chakra_ranks(prefix_));
    trace_.name = std::filesystem::path(prefix_).filename().string();
    for (int32_t rank = 0; rank < trace_.rank_count; ++rank) {
      PLEACH_ASSIGN(bytes, read_file(path(rank), kMostFileBytes));
      PLEACH_ASSIGN(nodes, parse_chakra(bytes, path(rank)));
      PLEACH_TRY(add_rank(rank, nodes));
    }
    if (const Status status = check_trace(trace_); !status) {
      return Error{status.error().code, fmt::format("{}: {}", prefix_, status.error().message)};
    }
    return std::move(trace_);
  }

 private:
  std::string path(int32_t rank) const { return chakra_path(prefix_, rank); }

  Status add_rank(int32_t rank, const std::vector<ChakraNode>& nodes) {
    rank_ = rank;
    uses_.clear();
    groups_ = options_.groups.value_or(ChakraGroups());
    for (const ChakraNode& node : nodes) {
      if (!options_.groups && is_metadata(node)) {
        add_metadata_groups(node.inputs, groups_);
      }
    }
    const std::string file = path(rank);
    PLEACH_ASSIGN(dependencies, find_dependencies(nodes, file));
    PLEACH_ASSIGN(order, sort_nodes(nodes, dependencies, file));
    std::vector<int32_t> place(nodes.size());  // in the order
    for (std::size_t index = 0; index < order.size(); ++index) {
      place[at(order[index])] = static_cast<int32_t>(index);
    }
    WorkerTrace worker;
    worker.ranks = {rank};
    worker.file = std::filesystem::path(file).filename().string();
    KeptNodes kept;
    for (const int32_t index : order) {
      std::vector<int32_t> before;
      for (const int32_t one : dependencies[at(index)]) {
        before.push_back(place[at(one)]);
      }
      const ChakraNode& node = nodes[at(index)];
      if (kept.held() + worker.dependencies.size() > kMostDependencies) {
        return chakra_error(file, node,
                            fmt::format("more than {} dependencies up to here, counting those "
                                        "through metadata",
                                        kMostDependencies));
      }
      if (is_metadata(node)) {
        kept.leave_out(before);
        continue;
      }
      PLEACH_ASSIGN(converted, read_node(NodeReader(file, node, options_), node));
      converted.name = name_of(node.name);
      worker.add(converted, kept.resolve(before));
      kept.keep();
    }
    trace_.workers.push_back(std::move(worker));
    return ok();
  }

  static bool is_metadata(const ChakraNode& node) { return node.kind == ChakraKind::kMetadata; }

  int32_t name_of(const std::string& name) {
    const auto [found, fresh] = name_of_.try_emplace(name, count_of(trace_.names));
    if (fresh) {
      trace_.names.push_back(name);
    }
    return found->second;
  }

  Result<TraceNode> read_node(const NodeReader& reader, const ChakraNode& node) {
    switch (node.kind) {
      case ChakraKind::kCompute:
        return timed(TraceNodeKind::kCompute, reader);
      case ChakraKind::kMemoryLoad:
        return moved(TraceNodeKind::kLoad, reader, node);
      case ChakraKind::kMemoryStore:
        return moved(TraceNodeKind::kStore, reader, node);
      case ChakraKind::kSend:
        return message(TraceNodeKind::kSend, reader);
      case ChakraKind::kReceive:
        return message(TraceNodeKind::kReceive, reader);
      case ChakraKind::kCollective:
        return collective(reader, node);
      case ChakraKind::kInvalid:
      case ChakraKind::kMetadata:
        break;
    }
    return reader.error(
        fmt::format("nodes of kind {} are not known", static_cast<int32_t>(node.kind)));
  }

  static Result<TraceNode> timed(TraceNodeKind kind, const NodeReader& reader) {
    PLEACH_ASSIGN(duration_ps, reader.duration_ps());
    PLEACH_ASSIGN(bytes, reader.number("tensor_size"));
    // The bytes are shown for what moves; computation has none.
    return TraceNode{.kind = kind,
                     .duration_ps = duration_ps,
                     .size_bytes = kind == TraceNodeKind::kCompute ? 0 : bytes.value_or(0)};
  }

  // A load or a store; without a duration and with a group, by the network's I/O nodes.
  Result<TraceNode> moved(TraceNodeKind kind, const NodeReader& reader, const ChakraNode& node) {
    if (node.duration_us > 0 || !reader.has("pg_name")) {
      return timed(kind, reader);
    }
    PLEACH_ASSIGN(group, reader.group());
    PLEACH_ASSIGN(ranks, ranks_of(reader, group));
    PLEACH_ASSIGN(size_bytes, reader.needed("tensor_size", 1));
    return TraceNode{.kind = kind, .family = io_family(kind, ranks), .size_bytes = size_bytes};
  }

  // The first of its kind that has the group, or where its ranks are in none: as in a training,
  // groups that do not meet have what they load at the same time.
  int32_t io_family(TraceNodeKind kind, const std::vector<int32_t>& ranks) {
    std::vector<IoFamily>& families = io_families_[kind];
    const auto fits = [&](const IoFamily& one) {
      return one.groups.contains(ranks) ||
             std::ranges::none_of(ranks, [&](int32_t rank) { return one.ranks.contains(rank); });
    };
    auto found = std::ranges::find_if(families, fits);
    if (found == families.end()) {
      families.push_back({.number = count_of(trace_.families), .groups = {}, .ranks = {}});
      found = std::prev(families.end());
      trace_.families.push_back({"io", {}, FamilyRole::kIo});
    }
    if (found->groups.insert(ranks).second) {
      found->ranks.insert(ranks.begin(), ranks.end());
      trace_.families[at(found->number)].groups.push_back(ranks);
    }
    return found->number;
  }

  Result<TraceNode> message(TraceNodeKind kind, const NodeReader& reader) const {
    const bool sends = kind == TraceNodeKind::kSend;
    const int64_t last = trace_.rank_count - 1;
    PLEACH_TRY(reader.number(sends ? "comm_src" : "comm_dst", rank_, rank_));
    PLEACH_ASSIGN(peer, reader.needed(sends ? "comm_dst" : "comm_src", 0, last));
    PLEACH_ASSIGN(size_bytes, reader.needed("comm_size"));
    PLEACH_ASSIGN(tag, reader.number("comm_tag", INT32_MIN, INT32_MAX));
    return TraceNode{.kind = kind,
                     .peer = static_cast<int32_t>(peer),
                     .tag = static_cast<int32_t>(tag.value_or(0)),
                     .size_bytes = size_bytes};
  }

  Result<TraceNode> collective(const NodeReader& reader, const ChakraNode& node) {
    PLEACH_ASSIGN(type, reader.needed("comm_type"));
    PLEACH_ASSIGN(kind, collective_of(type, path(rank_), node));
    PLEACH_ASSIGN(group, reader.group());
    PLEACH_ASSIGN(use, use_group(reader, group));
    int64_t size_bytes = 1;
    if (type != kChakraBarrier) {
      // The format counts what a rank brings along; here it is the whole buffer.
      const int64_t parts = kind == CollectiveKind::kAllGather ? use.size : 1;
      PLEACH_ASSIGN(comm_size, reader.needed("comm_size", 1, INT64_MAX / parts));
      size_bytes = comm_size * parts;
    }
    return TraceNode{.kind = TraceNodeKind::kCollective,
                     .collective = kind,
                     .family = use.family,
                     .size_bytes = size_bytes};
  }

  struct GroupUse {
    int32_t family = 0;
    int64_t size = 1;
  };

  // Of the rank's group of this name; nothing: all ranks.
  Result<std::vector<int32_t>> ranks_of(const NodeReader& reader,
                                        const std::optional<std::string>& name) const {
    std::vector<int32_t> ranks;
    if (name.has_value()) {
      const auto found = groups_.find(*name);
      if (found == groups_.end()) {
        return reader.error(fmt::format("there is no group {}", pleach::quoted(*name)));
      }
      ranks = found->second;
    }
    if (ranks.empty()) {
      ranks.resize(at(trace_.rank_count));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    if (std::ranges::find(ranks, rank_) == ranks.end()) {
      return reader.error(fmt::format("group {} does not hold rank {}",
                                      pleach::quoted(name.value_or(std::string(kWorld))), rank_));
    }
    return ranks;
  }

  // The family in which the rank's group of this name is; nothing: all ranks.
  Result<GroupUse> use_group(const NodeReader& reader, const std::optional<std::string>& name) {
    const std::string key = name.value_or(std::string(kWorld));
    const auto known = uses_.find(key);
    if (known != uses_.end()) {
      return known->second;
    }
    PLEACH_ASSIGN(ranks, ranks_of(reader, name));
    const auto [entry, fresh] = family_of_.try_emplace(key, count_of(trace_.families));
    if (fresh) {
      trace_.families.push_back({key, {}});
    }
    const GroupUse use = {entry->second, static_cast<int64_t>(ranks.size())};
    if (known_groups_.insert({use.family, ranks}).second) {
      trace_.families[at(use.family)].groups.push_back(std::move(ranks));
    }
    uses_.emplace(key, use);
    return use;
  }

  const std::string& prefix_;
  const ChakraOptions& options_;
  Trace trace_;
  ChakraGroups groups_;  // that the rank at hand knows
  std::unordered_map<std::string, int32_t> name_of_;
  std::unordered_map<std::string, int32_t> family_of_;
  std::set<std::pair<int32_t, std::vector<int32_t>>> known_groups_;  // of families
  std::unordered_map<std::string, GroupUse> uses_;                   // by the rank at hand
  struct IoFamily {
    int32_t number = 0;
    std::set<std::vector<int32_t>> groups;
    std::set<int32_t> ranks;  // of all of them
  };
  std::map<TraceNodeKind, std::vector<IoFamily>> io_families_;
  int32_t rank_ = 0;
};

}  // namespace

Result<int32_t> count_chakra_ranks(const std::string& prefix) {
  int32_t count = 0;
  std::error_code none;
  while (std::filesystem::exists(chakra_path(prefix, count), none)) {
    ++count;
  }
  if (const auto later = chakra_rank_above(prefix, count)) {
    return Error{ErrorCode::kIo, fmt::format("there is no file {}, though there is one of rank {}",
                                             pleach::quoted(chakra_path(prefix, count)), *later)};
  }
  if (count == 0) {
    return Error{ErrorCode::kIo,
                 fmt::format("there is no file {}", pleach::quoted(chakra_path(prefix, 0)))};
  }
  return count;
}

Result<Trace> read_chakra(const std::string& prefix, const ChakraOptions& options) {
  return TraceReader(prefix, options).read();
}

}  // namespace pleach
