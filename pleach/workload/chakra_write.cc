#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/workload/chakra.h"
#include "pleach/workload/chakra_file.h"

namespace pleach {
namespace {

constexpr int64_t kPicosecondsPerMicrosecond = 1'000'000;

// The format's number of a collective.
int64_t chakra_collective(CollectiveKind kind) {
  return std::ranges::find(kChakraCollectives, kind, &ChakraCollective::kind)->number;
}

// Groups of all families, numbered in a row.
struct NumberedGroups {
  std::vector<std::vector<int32_t>> groups;
  std::vector<std::vector<int32_t>> number;  // by family and rank; −1: none

  explicit NumberedGroups(const Trace& trace) {
    for (const Family& family : trace.families) {
      number.emplace_back(at(trace.rank_count), -1);
      for (const std::vector<int32_t>& group : family.groups) {
        for (const int32_t rank : group) {
          number.back()[at(rank)] = count_of(groups);
        }
        groups.push_back(group);
      }
    }
  }

  std::string json() const {
    std::string text = "{";
    for (std::size_t group = 0; group < groups.size(); ++group) {
      text += fmt::format("{}\n  \"{}\": [{}]", group == 0 ? "" : ",", group,
                          fmt::join(groups[group], ", "));
    }
    return text + "\n}\n";
  }
};

// The nodes of one rank.
class RankWriter {
 public:
  RankWriter(const Trace& trace, const NumberedGroups& groups, std::size_t worker,
             std::size_t member)
      : trace_(trace),
        groups_(groups),
        worker_(trace.workers[worker]),
        member_(member),
        rank_(worker_.ranks[member]) {}

  std::vector<ChakraNode> nodes() {
    std::vector<ChakraNode> nodes;
    KeptNodes kept;
    for (std::size_t index = 0; index < worker_.nodes.size(); ++index) {
      const TraceNode& node = worker_.nodes[index];
      const std::span<const int32_t> before =
          std::span(worker_.dependencies)
              .subspan(at(worker_.first_dependency[index]))
              .first(at(worker_.first_dependency[index + 1] - worker_.first_dependency[index]));
      if (node.kind == TraceNodeKind::kGradient || node.kind == TraceNodeKind::kForwardGate ||
          node.kind == TraceNodeKind::kBackwardGate || is_others_broadcast(node)) {
        kept.leave_out(before);
        continue;
      }
      ChakraNode written = {.id = nodes.size(),
                            .name = trace_.names[at(node.name)],
                            .kind = ChakraKind::kInvalid,
                            .before = {},
                            .duration_us = 0,
                            .inputs = {}};
      for (const int32_t number : kept.resolve(before)) {
        written.before.push_back(static_cast<uint64_t>(number));
      }
      kept.keep();
      written.attributes["is_cpu_op"] = false;
      fill(node, written);
      nodes.push_back(std::move(written));
    }
    return nodes;
  }

 private:
  static bool is_broadcast(const TraceNode& node) {
    return node.family >= 0 &&
           (node.kind == TraceNodeKind::kSend || node.kind == TraceNodeKind::kReceive);
  }
  // One rank of a worker's tensor group sends for all.
  bool is_others_broadcast(const TraceNode& node) const {
    return is_broadcast(node) && groups_.number[at(node.family)][at(rank_)] < 0;
  }

  void fill(TraceNode node, ChakraNode& written) {
    if (is_broadcast(node)) {
      node.kind = TraceNodeKind::kCollective;
      node.collective = CollectiveKind::kBroadcast;
    }
    auto& attributes = written.attributes;
    switch (node.kind) {
      case TraceNodeKind::kLoad:
      case TraceNodeKind::kStore:
        written.kind =
            node.kind == TraceNodeKind::kLoad ? ChakraKind::kMemoryLoad : ChakraKind::kMemoryStore;
        if (node.family >= 0) {  // how long it takes is the network's to say
          attributes["tensor_size"] = node.size_bytes;
          attributes["pg_name"] = std::to_string(groups_.number[at(node.family)][at(rank_)]);
          return;
        }
        written.duration_us = rounded(node);
        if (written.duration_us > 0) {  // else readers would compute a duration from the size
          attributes["tensor_size"] = node.size_bytes;
        }
        return;
      case TraceNodeKind::kCollective: {
        written.kind = ChakraKind::kCollective;
        const int32_t group = groups_.number[at(node.family)][at(rank_)];
        // The format counts what a rank brings along.
        const bool gathers = node.collective == CollectiveKind::kAllGather;
        const auto parts =
            gathers ? static_cast<int64_t>(groups_.groups[at(group)].size()) : int64_t{1};
        attributes["comm_type"] = chakra_collective(node.collective);
        attributes["comm_size"] = node.size_bytes / parts + (node.size_bytes % parts != 0 ? 1 : 0);
        attributes["pg_name"] = std::to_string(group);
        return;
      }
      case TraceNodeKind::kSend:
      case TraceNodeKind::kReceive: {
        const bool sends = node.kind == TraceNodeKind::kSend;
        const int32_t peer = trace_.workers[at(node.peer)].ranks[member_];
        written.kind = sends ? ChakraKind::kSend : ChakraKind::kReceive;
        attributes["comm_src"] = int64_t{sends ? rank_ : peer};
        attributes["comm_dst"] = int64_t{sends ? peer : rank_};
        attributes["comm_tag"] = int64_t{node.tag};
        attributes["comm_size"] = node.size_bytes;
        return;
      }
      default:
        written.kind = ChakraKind::kCompute;
        written.duration_us = rounded(node);
    }
  }

  // What is rounded off goes into the next node of the kind.
  uint64_t rounded(const TraceNode& node) {
    int64_t& carry_ps = carry_ps_[at(node.kind)];
    const int64_t exact_ps = node.duration_ps + carry_ps;
    const int64_t micros = std::max<int64_t>(0, exact_ps + kPicosecondsPerMicrosecond / 2) /
                           kPicosecondsPerMicrosecond;
    carry_ps = exact_ps - micros * kPicosecondsPerMicrosecond;
    return static_cast<uint64_t>(micros);
  }

  const Trace& trace_;
  const NumberedGroups& groups_;
  const WorkerTrace& worker_;
  const std::size_t member_;  // position among the worker's ranks
  const int32_t rank_;
  std::array<int64_t, 3> carry_ps_ = {};  // of kCompute, kLoad, kStore
};

}  // namespace

Status write_chakra(const Trace& trace, const std::string& prefix) {
  PLEACH_TRY(check_trace(trace));
  if (const auto other = chakra_rank_above(prefix, trace.rank_count - 1)) {
    const std::string beyond = chakra_path(prefix, *other);
    return Error{ErrorCode::kIo,
                 fmt::format("{} would be taken for a part of the trace of {} ranks; remove it",
                             pleach::quoted(beyond), trace.rank_count)};
  }
  // Rank 0 last: without it there is no trace to read.
  std::map<int32_t, std::pair<std::size_t, std::size_t>, std::greater<>> places;
  for (std::size_t worker = 0; worker < trace.workers.size(); ++worker) {
    for (std::size_t member = 0; member < trace.workers[worker].ranks.size(); ++member) {
      places[trace.workers[worker].ranks[member]] = {worker, member};
    }
  }
  for (int32_t rank = 0; rank < trace.rank_count; ++rank) {
    if (!places.contains(rank)) {
      return invalid(fmt::format("rank {} is in no worker", rank));
    }
  }
  const NumberedGroups groups(trace);
  FileSet files;
  PLEACH_TRY(files.add(prefix + ".groups.json", groups.json()));
  for (const auto& [rank, place] : places) {
    RankWriter writer(trace, groups, place.first, place.second);
    PLEACH_TRY(files.add(fmt::format("{}.{}.et", prefix, rank), chakra_bytes(writer.nodes())));
  }
  return files.commit();
}

}  // namespace pleach
