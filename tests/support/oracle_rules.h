// The Oracle's statement of the rules: what the collective asks, what a schedule's messages are,
// and what each event waits for.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "tests/support/oracle.h"

namespace pleach::support {

inline bool OracleTask::has_input(int32_t rank, int32_t chunk) const {
  switch (collective) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
      return rank == root;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      return rank == block_of(chunk, rank_count);
    case CollectiveKind::kAllToAll:
      return rank == block_of(chunk, rank_count * rank_count) / rank_count;
    default:
      return true;
  }
}

inline bool OracleTask::has_output(int32_t rank, int32_t chunk) const {
  switch (collective) {
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
      return rank == root;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
      return rank == block_of(chunk, rank_count);
    case CollectiveKind::kAllToAll:
      return rank == block_of(chunk, rank_count * rank_count) % rank_count;
    default:
      return true;
  }
}

inline OracleEvents::OracleEvents(const Schedule& schedule, const OracleRules& rules,
                                  std::optional<int32_t> only_chunk)
    : rules_(rules),
      task_{schedule.collective, schedule.root.value, schedule.rank_count(),
            schedule.chunks.count()},
      period_(schedule.period),
      folds_by_rank_(schedule.fold_order == FoldOrder::kByRank) {
  for (const NodeId node : schedule.participants) {
    node_of_rank_.push_back(node.value);
  }
  join_messages(schedule, only_chunk);
  add_events();
  if (fits()) {
    add_needs();
  }
}

inline bool OracleEvents::fits() const {
  return events_.size() <= kLimit &&
         std::none_of(messages_.begin(), messages_.end(), [](const Message& message) {
           return message.sources.empty() || message.targets.empty();  // ends at a switch
         });
}

// A switch holds nothing: what enters it at a step leaves it in the same message.
inline void OracleEvents::join_messages(const Schedule& schedule,
                                        std::optional<int32_t> only_chunk) {
  const std::vector<Transfer>& transfers = schedule.transfers;
  std::vector<std::size_t> group(transfers.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  const auto rank_of = [this](NodeId node) {
    const auto found = std::find(node_of_rank_.begin(), node_of_rank_.end(), node.value);
    return found == node_of_rank_.end() ? -1 : static_cast<int32_t>(found - node_of_rank_.begin());
  };
  const auto share_switch = [&](const Transfer& left, const Transfer& right) {
    const std::pair from(left.source, left.source_pass), to(left.target, left.target_pass);
    for (const auto& [node, pass] : {from, to}) {
      const bool meets = (node == right.source && pass == right.source_pass) ||
                         (node == right.target && pass == right.target_pass);
      if (rank_of(node) < 0 && meets && left.step == right.step &&
          left.first_chunk == right.first_chunk) {
        return true;
      }
    }
    return false;
  };
  for (std::size_t one = 0; one < transfers.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      if (group[one] != group[other] && share_switch(transfers[one], transfers[other])) {
        std::replace(group.begin(), group.end(), group[one], group[other]);
      }
    }
  }
  for (std::size_t first = 0; first < transfers.size(); ++first) {
    Message message{.first_chunk = transfers[first].first_chunk,
                    .chunk_count = transfers[first].chunk_count,
                    .step = transfers[first].step};
    for (std::size_t hop = first; hop < transfers.size(); ++hop) {
      if (group[hop] != group[first]) {
        continue;
      }
      if (const int32_t rank = rank_of(transfers[hop].source); rank >= 0) {
        message.sources.push_back(rank);
      }
      if (const int32_t rank = rank_of(transfers[hop].target); rank >= 0) {
        message.targets.push_back(rank);
        message.op = transfers[hop].op;
      }
    }
    const bool is_first =
        std::find(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(first),
                  group[first]) == group.begin() + static_cast<std::ptrdiff_t>(first);
    if (!is_first || (only_chunk && !message.carries(*only_chunk))) {
      continue;
    }
    if (only_chunk) {
      message.first_chunk = *only_chunk;
      message.chunk_count = 1;
    }
    std::sort(message.sources.begin(), message.sources.end());
    std::sort(message.targets.begin(), message.targets.end());
    messages_.push_back(std::move(message));
  }
}

inline void OracleEvents::add_events() {
  std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> connections;
  std::size_t read_parts = 0;
  for (std::size_t index = 0; index < messages_.size(); ++index) {
    Message& message = messages_[index];
    const std::pair ends(message.sources, message.targets);
    const auto found = std::find(connections.begin(), connections.end(), ends);
    message.connection = static_cast<int32_t>(found - connections.begin());
    if (found == connections.end()) {
      connections.push_back(ends);
    }
    message.first_event = count_of(events_);
    first_read_part_.push_back(read_parts);
    read_parts += message.sources.size() * at(message.chunk_count) * at(rules_.segment_count);
    for (int32_t segment = 0; segment < rules_.segment_count; ++segment) {
      events_.push_back({static_cast<int32_t>(index), segment, -1, 0});
      for (const int32_t target : message.targets) {
        for (int32_t chunk = 0; chunk < message.chunk_count; ++chunk) {
          events_.push_back(
              {static_cast<int32_t>(index), segment, target, message.first_chunk + chunk});
        }
      }
    }
  }
  reads_of_source_.resize(read_parts);
}

inline void OracleEvents::add_needs() {
  needs_.resize(events_.size());
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    const Message& message = messages_[at(event.message)];
    if (event.target >= 0) {
      needs_[index] = commit_needs(message, event.target, event.chunk, event.segment);
      continue;
    }
    for (std::size_t source = 0; source < message.sources.size(); ++source) {
      for (int32_t chunk = 0; chunk < message.chunk_count; ++chunk) {
        Done& part = reads_of_source_[read_part(event.message, source, chunk, event.segment)];
        part = read_needs(message, source, message.first_chunk + chunk, event.segment);
        needs_[index] |= part;
      }
    }
  }
  if (!rules_.messages_commit_whole) {
    return;
  }
  const std::vector<Done> separate = needs_;
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    const int32_t read = read_event(event.message, event.segment);
    const int32_t commit_count = messages_[at(event.message)].commit_count();
    for (int32_t other = 1; event.target >= 0 && other <= commit_count; ++other) {
      needs_[index] |= separate[at(read + other)];
    }
  }
}

// "A send of c out of v at step s reads after every arrival of c at v with a smaller step has
// committed."
inline OracleEvents::Done OracleEvents::read_needs(const Message& message, std::size_t source,
                                                   int32_t chunk, int32_t segment) const {
  const int32_t rank = message.sources[source];
  Done needs;
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    if (event.target == rank && event.chunk == chunk && event.segment == segment &&
        messages_[at(event.message)].step < message.step) {
      needs.set(index);
    }
  }
  return needs;
}

// "An arrival of c at v at step s commits after every send of c out of v with step ≤ s has been
// read and every arrival of smaller step has committed", those of one step in ascending source
// rank.
// "Folded by rank, arrivals commit when all of their step are there."
inline OracleEvents::Done OracleEvents::commit_needs(const Message& message, int32_t target,
                                                     int32_t chunk, int32_t segment) const {
  Done needs = scratch_needs(target, chunk, segment);
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    const Message& other = messages_[at(event.message)];
    if (event.segment != segment || !other.carries(chunk)) {
      continue;
    }
    if (event.target < 0) {
      const bool leaves = std::count(other.sources.begin(), other.sources.end(), target) > 0;
      const bool arrives = std::count(other.targets.begin(), other.targets.end(), target) > 0;
      if ((leaves && other.step <= message.step) ||
          (arrives && rules_.fusion_waits && other.op == TransferOp::kReduce)) {
        need_read(needs, static_cast<int32_t>(index), chunk);
      }
      if (folds_by_rank_ && !rules_.folds_early && arrives && other.step == message.step) {
        needs.set(index);
      }
    } else if (event.target == target && event.chunk == chunk) {
      const bool same_step = other.step == message.step;
      if (other.step < message.step || (same_step && source_before(other, message))) {
        needs.set(index);
      }
    }
  }
  return needs;
}

// What arrives where it has no home, input or not, lies in scratch of D segments: segment k
// overwrites segment k - D, whose reads and commits must be over. D counts from the first arrival
// to the last event: also an arrival that nobody reads takes the place.
inline OracleEvents::Done OracleEvents::scratch_needs(int32_t rank, int32_t chunk,
                                                      int32_t segment) const {
  Done needs;
  if (rules_.scratch == OracleRules::Scratch::kEverySegment || task_.has_output(rank, chunk)) {
    return needs;
  }
  int32_t first_arrival = INT32_MAX, last_event = -1;
  for (const Message& message : messages_) {
    if (!message.carries(chunk)) {
      continue;
    }
    if (std::count(message.targets.begin(), message.targets.end(), rank) > 0) {
      first_arrival = std::min(first_arrival, message.step);
      last_event = std::max(last_event, message.step);
    }
    if (std::count(message.sources.begin(), message.sources.end(), rank) > 0) {
      last_event = std::max(last_event, message.step);
    }
  }
  const int32_t span = std::max(0, last_event - first_arrival);
  int32_t segments = 1;
  if (rules_.scratch == OracleRules::Scratch::kByPeriod) {
    segments = std::max(1, (span + period_ - 1) / period_);
  }
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    const Message& other = messages_[at(event.message)];
    const bool is_read = event.target < 0 && other.carries(chunk) &&
                         std::count(other.sources.begin(), other.sources.end(), rank) > 0;
    const bool is_commit = event.target == rank && event.chunk == chunk;
    if (event.segment == segment - segments && is_read) {
      need_read(needs, static_cast<int32_t>(index), chunk);
    } else if (event.segment == segment - segments && is_commit) {
      needs.set(index);
    }
  }
  return needs;
}

// The read of that chunk is over.
inline void OracleEvents::need_read(Done& needs, int32_t event, int32_t chunk) const {
  const Event& read = events_[at(event)];
  const Message& message = messages_[at(read.message)];
  if (!is_borrowed(read.message)) {
    needs.set(at(event));
    return;
  }
  for (int32_t k = 0; k < message.chunk_count; ++k) {
    for (std::size_t target = 0; target < message.targets.size(); ++target) {
      if (rules_.borrows_whole || message.first_chunk + k == chunk) {
        needs.set(at(commit_event(read.message, target, k, read.segment)));
      }
    }
  }
}

inline bool OracleEvents::source_before(const Message& left, const Message& right) const {
  if (rules_.sources_by_node) {
    return node_of_rank_[at(left.sources.front())] < node_of_rank_[at(right.sources.front())];
  }
  return left.sources.front() < right.sources.front();
}

}  // namespace pleach::support
