#include "pleach/training/trace_stop.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::size_t kNamedWaits = 16;  // of a cycle, in a message

// The workers of a cycle, each of which waits for the next one; none: there is no cycle.
std::vector<int32_t> cycle_of(const std::map<int32_t, TraceWait>& wait_of) {
  std::map<int32_t, int32_t> walked_from;  // by worker: where the walk that passed it began
  for (const auto& [first, wait] : wait_of) {
    int32_t worker = first;
    while (wait_of.contains(worker) && walked_from.try_emplace(worker, first).second) {
      worker = wait_of.at(worker).worker;
    }
    const auto known = walked_from.find(worker);
    if (known == walked_from.end() || known->second != first) {
      continue;  // it ends, or joins a walk without a cycle
    }
    std::vector<int32_t> cycle = {worker};
    for (int32_t next = wait_of.at(worker).worker; next != worker; next = wait_of.at(next).worker) {
      cycle.push_back(next);
    }
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    return cycle;
  }
  return {};
}

std::string told(const Trace& trace, const TraceWait& wait) {
  const WorkerTrace& worker = trace.workers[at(wait.node.worker)];
  const TraceNode& node = worker.nodes[at(wait.node.node)];
  const std::string what =
      node.kind == TraceNodeKind::kReceive
          ? "receive " + quoted(trace.names[at(node.name)])
          : fmt::format("collective {} of {}", quoted(trace.names[at(node.name)]),
                        quoted(trace.families[at(node.family)].name));
  return fmt::format("rank {}{} waits in {} for rank {}", worker.ranks.front(),
                     worker.file.empty() ? "" : " (" + quoted(worker.file) + ")", what,
                     trace.workers[at(wait.worker)].ranks.front());
}

}  // namespace

Error trace_stop(const Trace& trace, std::span<const TraceWait> waits) {
  std::map<int32_t, TraceWait> wait_of;  // by worker: its first
  for (const TraceWait& wait : waits) {
    const auto [known, is_new] = wait_of.try_emplace(wait.node.worker, wait);
    known->second = std::min(known->second, wait);
  }
  if (wait_of.empty()) {
    return invalid("the trace stops: no node can run");
  }
  const std::vector<int32_t> cycle = cycle_of(wait_of);
  if (cycle.empty()) {
    return invalid("the trace stops: " + told(trace, wait_of.begin()->second));
  }
  std::vector<std::string> links;
  for (std::size_t i = 0; i < std::min(cycle.size(), kNamedWaits); ++i) {
    links.push_back(told(trace, wait_of.at(cycle[i])));
  }
  return invalid(fmt::format("the trace stops, as {} ranks wait for each other: {}{}", cycle.size(),
                             join(links, "; "), cycle.size() > links.size() ? "; ..." : ""));
}

}  // namespace pleach
