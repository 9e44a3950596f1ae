#include "pleach/workload/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

// Of one iteration. Far below 64 bits, so that times of many workers in a row stay within them.
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of one message or buffer

bool is_index(int32_t index, std::size_t count) {
  return index >= 0 && at(index) < count;
}

class Checker {
 public:
  explicit Checker(const Trace& trace) : trace_(trace) {}

  Status run() {
    PLEACH_TRY(check_ranks());
    PLEACH_TRY(check_families());
    PLEACH_TRY(check_groups());
    for (worker_ = 0; worker_ < trace_.workers.size(); ++worker_) {
      PLEACH_TRY(check_shape());
      total_ps_ = 0;
      for (node_ = 0; node_ < nodes().size(); ++node_) {
        PLEACH_TRY(check_dependencies());
        PLEACH_TRY(check_node(nodes()[node_]));
      }
    }
    PLEACH_TRY(check_messages());
    PLEACH_TRY(check_gradients());
    PLEACH_TRY(check_collectives());
    for (worker_ = 0; worker_ < trace_.workers.size(); ++worker_) {
      if (nodes().empty()) {
        return invalid(fmt::format("worker {} has nothing to do", worker_));
      }
    }
    return ok();
  }

 private:
  struct Issue {
    CollectiveKind kind;
    int64_t size_bytes;
    bool operator==(const Issue&) const = default;
  };
  // Source worker, target worker, tag.
  using Channel = std::tuple<int32_t, int32_t, int32_t>;
  // Group, worker, layer.
  using Report = std::tuple<int32_t, int32_t, int32_t>;

  const std::vector<TraceNode>& nodes() const { return trace_.workers[worker_].nodes; }
  int32_t worker() const { return static_cast<int32_t>(worker_); }

  // "worker 2, node 7 ('qkv')": the node at hand.
  Error at_node(const std::string& what) const {
    const int32_t name = nodes()[node_].name;
    const std::string label = is_index(name, trace_.names.size())
                                  ? fmt::format(" ({})", pleach::quoted(trace_.names[at(name)]))
                                  : "";
    return invalid(fmt::format("worker {}, node {}{}: {}", worker_, node_, label, what));
  }

  Status check_ranks() {
    if (trace_.rank_count < 1) {
      return invalid(fmt::format("a trace of {} ranks", trace_.rank_count));
    }
    worker_of_.assign(at(trace_.rank_count), -1);
    for (std::size_t worker = 0; worker < trace_.workers.size(); ++worker) {
      if (trace_.workers[worker].ranks.empty()) {
        return invalid(fmt::format("worker {} has no ranks", worker));
      }
      for (const int32_t rank : trace_.workers[worker].ranks) {
        if (!is_index(rank, worker_of_.size())) {
          return invalid(
              fmt::format("worker {}: rank {} is not in [0, {})", worker, rank, trace_.rank_count));
        }
        int32_t& owner = worker_of_[at(rank)];
        if (owner >= 0) {
          return invalid(
              fmt::format("rank {} is in worker {} and in worker {}", rank, owner, worker));
        }
        owner = static_cast<int32_t>(worker);
      }
    }
    return ok();
  }

  // Into `group_of`, by rank: its group in the family, or −1.
  Status find_groups(const Family& family, std::vector<int32_t>& group_of) const {
    group_of.assign(worker_of_.size(), -1);
    for (std::size_t group = 0; group < family.groups.size(); ++group) {
      if (family.groups[group].empty()) {
        return invalid(
            fmt::format("family {}: group {} is empty", pleach::quoted(family.name), group));
      }
      for (const int32_t rank : family.groups[group]) {
        if (!is_index(rank, group_of.size())) {
          return invalid(fmt::format("family {}, group {}: rank {} is not in [0, {})",
                                     pleach::quoted(family.name), group, rank, trace_.rank_count));
        }
        if (worker_of_[at(rank)] < 0) {
          return invalid(fmt::format("family {}, group {}: rank {} is in no worker",
                                     pleach::quoted(family.name), group, rank));
        }
        if (group_of[at(rank)] >= 0) {
          return invalid(fmt::format("family {}: rank {} is in group {} and again in group {}",
                                     pleach::quoted(family.name), rank, group_of[at(rank)], group));
        }
        group_of[at(rank)] = static_cast<int32_t>(group);
      }
    }
    return ok();
  }

  Status check_families() const {
    std::vector<int32_t> group_of;
    for (const Family& family : trace_.families) {
      PLEACH_TRY(find_groups(family, group_of));
    }
    return ok();
  }

  Status check_groups() const {
    for (const GradientGroup& group : trace_.gradient_groups) {
      const std::string where = fmt::format("gradient group {}", pleach::quoted(group.name));
      if (!is_index(group.family, trace_.families.size())) {
        return invalid(fmt::format("{}: there is no family {}", where, group.family));
      }
      if (group.workers.empty()) {
        return invalid(where + " has no workers");
      }
      for (const int32_t worker : group.workers) {
        if (!is_index(worker, trace_.workers.size()) ||
            std::ranges::count(group.workers, worker) != 1) {
          return invalid(fmt::format("{}: worker {} is not there, or named twice", where, worker));
        }
      }
      if (group.rank_count < 1) {
        return invalid(fmt::format("{} is of {} ranks", where, group.rank_count));
      }
      for (const GradientLayer& layer : group.layers) {
        if (std::min({layer.forward_ps, layer.backward_ps, layer.weight_gradient_ps,
                      layer.exchange_bytes}) < 0 ||
            std::ranges::any_of(layer.tensor_bytes, [](int64_t bytes) { return bytes <= 0; })) {
          return invalid(
              fmt::format("{}, layer {}: a time or a size is negative, or a tensor empty", where,
                          pleach::quoted(layer.name)));
        }
      }
    }
    return ok();
  }

  Status check_shape() const {
    const WorkerTrace& worker = trace_.workers[worker_];
    const bool fits = worker.first_dependency.size() == worker.nodes.size() + 1 &&
                      worker.first_dependency.front() == 0 &&
                      std::ranges::is_sorted(worker.first_dependency) &&
                      at(worker.first_dependency.back()) == worker.dependencies.size();
    if (!fits) {
      return invalid(
          fmt::format("worker {}: first_dependency does not partition the dependencies", worker_));
    }
    return ok();
  }

  Status check_dependencies() const {
    const WorkerTrace& worker = trace_.workers[worker_];
    for (int32_t index = worker.first_dependency[node_]; index < worker.first_dependency[node_ + 1];
         ++index) {
      const int32_t before = worker.dependencies[at(index)];
      if (!is_index(before, node_)) {
        return at_node(fmt::format("waits for node {}, which is not before it", before));
      }
    }
    return ok();
  }

  Status check_node(const TraceNode& node) {
    if (!is_index(node.name, trace_.names.size())) {
      return at_node(fmt::format("there is no name {}", node.name));
    }
    if (node.duration_ps < 0 || node.size_bytes < 0) {
      return at_node(fmt::format("a negative duration of {} ps or size of {} bytes",
                                 node.duration_ps, node.size_bytes));
    }
    if (node.size_bytes > kMostBytes) {
      return at_node(fmt::format("a size of {} bytes is over 1 PiB", node.size_bytes));
    }
    if (node.duration_ps > kLongestPs - total_ps_) {
      return at_node(fmt::format("the worker's durations add up to more than {}", kLongestText));
    }
    total_ps_ += node.duration_ps;
    switch (node.kind) {
      case TraceNodeKind::kCompute:
        return ok();
      case TraceNodeKind::kLoad:
      case TraceNodeKind::kStore:
        return node.family < 0 ? ok() : check_issue(node, io_collective(node.kind));
      case TraceNodeKind::kCollective:
        return check_issue(node, node.collective);
      case TraceNodeKind::kSend:
      case TraceNodeKind::kReceive:
        return check_message(node);
      case TraceNodeKind::kGradient:
      case TraceNodeKind::kForwardGate:
      case TraceNodeKind::kBackwardGate:
        return check_report(node);
    }
    return at_node("of an unknown kind");
  }

  // What all members of a group do alike.
  Status check_issue(const TraceNode& node, CollectiveKind kind) {
    if (!is_index(node.family, trace_.families.size())) {
      return at_node(fmt::format("there is no family {}", node.family));
    }
    const Family& family = trace_.families[at(node.family)];
    if ((node.kind != TraceNodeKind::kCollective) != is_of_io(family.role)) {
      return at_node(fmt::format("family {} is {} I/O nodes", pleach::quoted(family.name),
                                 is_of_io(family.role) ? "of" : "not of"));
    }
    std::vector<Issue>& issued = issues_[{node.family, worker()}];
    if (is_of_io(family.role) && !issued.empty() && issued.front().kind != kind) {
      return at_node(
          fmt::format("family {} is of loads and of stores", pleach::quoted(family.name)));
    }
    issued.push_back({kind, node.size_bytes});
    return ok();
  }

  Status check_message(const TraceNode& node) {
    if (!is_index(node.peer, trace_.workers.size()) || node.peer == worker()) {
      return at_node(fmt::format("worker {} is no peer", node.peer));
    }
    if (node.family >= 0) {
      PLEACH_TRY(check_broadcast(node));
    } else if (trace_.workers[at(node.peer)].ranks.size() != trace_.workers[worker_].ranks.size()) {
      return at_node(fmt::format("worker {} stands for {} ranks and its peer {} for {}", worker_,
                                 trace_.workers[worker_].ranks.size(), node.peer,
                                 trace_.workers[at(node.peer)].ranks.size()));
    }
    const bool sends = node.kind == TraceNodeKind::kSend;
    const Channel channel = {sends ? worker() : node.peer, sends ? node.peer : worker(), node.tag};
    (sends ? sent_ : received_)[channel].push_back(node.size_bytes);
    return ok();
  }

  // The family has groups from the sender to the receiver, and none from or to one of them and
  // elsewhere.
  Status check_broadcast(const TraceNode& node) const {
    if (!is_index(node.family, trace_.families.size())) {
      return at_node(fmt::format("there is no family {}", node.family));
    }
    const bool sends = node.kind == TraceNodeKind::kSend;
    const int32_t source = sends ? worker() : node.peer;
    const int32_t target = sends ? node.peer : worker();
    bool has_group = false;
    for (const std::vector<int32_t>& group : trace_.families[at(node.family)].groups) {
      const bool is_source = worker_of_[at(group.front())] == source;
      for (std::size_t member = 1; member < group.size(); ++member) {
        if ((worker_of_[at(group[member])] == target) != is_source) {
          return at_node(
              fmt::format("family {}: rank {} and rank {} are not one of worker {} and "
                          "one of worker {}, or neither",
                          pleach::quoted(trace_.families[at(node.family)].name), group.front(),
                          group[member], source, target));
        }
      }
      has_group = has_group || (is_source && group.size() > 1);
    }
    return has_group ? ok()
                     : Status(at_node(fmt::format(
                           "family {} has no group from worker {} to {}",
                           pleach::quoted(trace_.families[at(node.family)].name), source, target)));
  }

  Status check_report(const TraceNode& node) {
    if (!is_index(node.gradient_group, trace_.gradient_groups.size())) {
      return at_node(fmt::format("there is no gradient group {}", node.gradient_group));
    }
    const GradientGroup& group = trace_.gradient_groups[at(node.gradient_group)];
    if (!is_index(node.layer, group.layers.size())) {
      return at_node(
          fmt::format("gradient group {} has no layer {}", pleach::quoted(group.name), node.layer));
    }
    if (std::ranges::find(group.workers, worker()) == group.workers.end()) {
      return at_node(
          fmt::format("gradient group {} is of other workers", pleach::quoted(group.name)));
    }
    if (!reports_[node.kind].insert({node.gradient_group, worker(), node.layer}).second) {
      return at_node("says for the second time in an iteration what is said once");
    }
    return ok();
  }

  // Sends and receives of one channel pair up in order.
  Status check_messages() {
    for (const auto& [channel, sizes] : sent_) {
      received_[channel];
    }
    for (const auto& [channel, received] : received_) {
      const std::vector<int64_t>& sent = sent_[channel];
      const auto [source, target, tag] = channel;
      const std::string where =
          fmt::format("messages from worker {} to worker {} with tag {}", source, target, tag);
      if (sent.size() != received.size()) {
        return invalid(
            fmt::format("{}: {} sends and {} receives", where, sent.size(), received.size()));
      }
      const auto [left, right] = std::ranges::mismatch(sent, received);
      if (left != sent.end()) {
        return invalid(fmt::format("{}: number {} is sent with {} bytes and received with {}",
                                   where, left - sent.begin(), *left, *right));
      }
    }
    return ok();
  }

  // Every worker of a group reports every layer that has gradients.
  Status check_gradients() const {
    const auto found = reports_.find(TraceNodeKind::kGradient);
    for (std::size_t index = 0; index < trace_.gradient_groups.size(); ++index) {
      const GradientGroup& group = trace_.gradient_groups[index];
      for (std::size_t layer = 0; layer < group.layers.size(); ++layer) {
        if (group.layers[layer].tensor_bytes.empty()) {
          continue;
        }
        for (const int32_t worker : group.workers) {
          const Report report = {static_cast<int32_t>(index), worker, static_cast<int32_t>(layer)};
          if (found == reports_.end() || !found->second.contains(report)) {
            return invalid(fmt::format("gradient group {}: worker {} has no gradient of layer {}",
                                       pleach::quoted(group.name), worker,
                                       pleach::quoted(group.layers[layer].name)));
          }
        }
      }
    }
    return ok();
  }

  std::span<const Issue> issues(int32_t family, int32_t worker) const {
    const auto found = issues_.find({family, worker});
    return found == issues_.end() ? std::span<const Issue>() : std::span(found->second);
  }

  Status check_collectives() const {
    std::vector<int32_t> group_of;
    int32_t known = -1;
    for (const auto& [key, list] : issues_) {
      const auto [family, worker] = key;
      if (family != known) {
        PLEACH_TRY(find_groups(trace_.families[at(family)], group_of));
        known = family;
        PLEACH_TRY(check_family(family));
      }
      for (const int32_t rank : trace_.workers[at(worker)].ranks) {
        if (group_of[at(rank)] < 0) {
          return invalid(fmt::format("worker {}: rank {} is in no group of family {}", worker, rank,
                                     pleach::quoted(trace_.families[at(family)].name)));
        }
      }
    }
    return ok();
  }

  // All members of a group issue the same collectives.
  Status check_family(int32_t index) const {
    const Family& family = trace_.families[at(index)];
    for (std::size_t group = 0; group < family.groups.size(); ++group) {
      const int32_t first = worker_of_[at(family.groups[group].front())];
      const std::span<const Issue> expected = issues(index, first);
      int32_t last = first;
      for (const int32_t rank : family.groups[group]) {
        const int32_t other = worker_of_[at(rank)];
        if (other == last) {
          continue;
        }
        last = other;
        const std::span<const Issue> found = issues(index, other);
        const auto [left, right] = std::ranges::mismatch(expected, found);
        if (left != expected.end() || right != found.end()) {
          const auto describe = [](std::span<const Issue> list, auto at) {
            return at == list.end()
                       ? std::string("nothing")
                       : fmt::format("{} of {} bytes", to_text(at->kind), at->size_bytes);
          };
          return invalid(fmt::format(
              "family {}, group {}, collective {}: worker {} issues {} and worker {} {}",
              pleach::quoted(family.name), group, left - expected.begin(), first,
              describe(expected, left), other, describe(found, right)));
        }
      }
    }
    return ok();
  }

  const Trace& trace_;
  std::vector<int32_t> worker_of_;  // by rank; −1: it does nothing
  std::size_t worker_ = 0;          // at hand
  std::size_t node_ = 0;
  int64_t total_ps_ = 0;                                              // of the worker so far
  std::map<std::pair<int32_t, int32_t>, std::vector<Issue>> issues_;  // by family and worker
  std::map<Channel, std::vector<int64_t>> sent_;                      // sizes
  std::map<Channel, std::vector<int64_t>> received_;
  std::map<TraceNodeKind, std::set<Report>> reports_;
};

}  // namespace

int32_t WorkerTrace::add(const TraceNode& node, const std::vector<int32_t>& after) {
  const auto index = count_of(nodes);
  nodes.push_back(node);
  dependencies.insert(dependencies.end(), after.begin(), after.end());
  first_dependency.push_back(count_of(dependencies));
  return index;
}

int32_t find_family(const Trace& trace, FamilyRole role) {
  const auto found = std::ranges::find(trace.families, role, &Family::role);
  return found == trace.families.end() ? -1 : static_cast<int32_t>(found - trace.families.begin());
}

Status check_trace(const Trace& trace) {
  return Checker(trace).run();
}

}  // namespace pleach
