// A simulated iteration as a trace: gates and gradients become the collectives that were started.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/training/training.h"

namespace pleach {
namespace {

// The collectives of one gradient group, as one worker issues them.
class GroupWriter {
 public:
  GroupWriter(const GradientGroup& group, const std::vector<HostedCollective>& log,
              int32_t first_name)
      : group_(group), space_(profile_of(group)), log_(log), first_name_(first_name) {
    int32_t current = 0;
    for (const HostedCollective& one : log) {
      current = std::max(current, one.iteration);
    }
    own_from_ =
        at(std::find_if(log.begin(), log.end(),
                        [&](const HostedCollective& one) { return one.iteration == current; }) -
           log.begin());
    after_gradients_.resize(group.layers.size());
    has_gradient_.resize(group.layers.size(), false);
  }

  // What a layer's forward waits for: collectives of the iteration before, written now.
  void before_forward(WorkerTrace& worker, int32_t layer, bool whole, std::vector<int32_t>& after) {
    std::size_t last = 0;
    for (std::size_t index = 0; index < own_from_; ++index) {
      if (whole || meets(log_[index].what.range, layer)) {
        last = index + 1;
      }
    }
    write_until(worker, last);
    if (last > 0) {
      after.push_back(written_[last - 1]);
    }
  }

  void gradient(WorkerTrace& worker, int32_t layer, const std::vector<int32_t>& after) {
    after_gradients_[at(layer)] = after;
    has_gradient_[at(layer)] = true;
    std::size_t next = std::max(written_.size(), own_from_);
    while (next < log_.size() && is_complete(log_[next].what.range)) {
      ++next;
    }
    if (next > own_from_) {
      write_until(worker, next);
    }
  }

  void finish(WorkerTrace& worker) { write_until(worker, log_.size()); }

 private:
  bool meets(ByteRange range, int32_t layer) const {
    const ByteRange own = space_.layer(layer);
    return range.begin < own.end && own.begin < range.end;
  }

  bool is_complete(ByteRange range) const {
    for (int32_t layer = space_.layer_of(range.begin);
         layer < space_.layer_count() && space_.layer(layer).begin < range.end; ++layer) {
      if (space_.layer(layer).size() > 0 && !has_gradient_[at(layer)]) {
        return false;
      }
    }
    return true;
  }

  void write_until(WorkerTrace& worker, std::size_t count) {
    for (std::size_t index = written_.size(); index < count; ++index) {
      const PolicyCollective& what = log_[index].what;
      std::vector<int32_t> after;
      if (index > 0) {
        after.push_back(written_[index - 1]);
      }
      for (int32_t layer = 0;
           index >= own_from_ && reduces(what.kind) && layer < space_.layer_count(); ++layer) {
        if (meets(what.range, layer)) {
          after.insert(after.end(), after_gradients_[at(layer)].begin(),
                       after_gradients_[at(layer)].end());
        }
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      written_.push_back(worker.add({.kind = TraceNodeKind::kCollective,
                                     .collective = what.kind,
                                     .name = first_name_ + static_cast<int32_t>(index),
                                     .family = group_.family,
                                     .size_bytes = what.range.size()},
                                    after));
    }
  }

  const GradientGroup& group_;
  ParameterSpace space_;
  const std::vector<HostedCollective>& log_;
  int32_t first_name_;
  std::size_t own_from_ = 0;      // the first collective of this iteration's gradients
  std::vector<int32_t> written_;  // nodes, by position in the log
  std::vector<std::vector<int32_t>> after_gradients_;  // by layer
  std::vector<bool> has_gradient_;
};

class Exporter {
 public:
  explicit Exporter(const TrainingRow& row) : row_(row), whole_(*row.trace) {
    whole_.gradient_groups.clear();
    for (std::size_t group = 0; group < row.trace->gradient_groups.size(); ++group) {
      first_name_.push_back(count_of(whole_.names));
      for (const HostedCollective& one : row.run.logs[group]) {
        whole_.names.push_back(fmt::format("{} {} bytes {}-{}", to_text(one.what.kind),
                                           row.trace->gradient_groups[group].name,
                                           one.what.range.begin, one.what.range.end));
      }
    }
  }

  Trace run() {
    for (std::size_t worker = 0; worker < whole_.workers.size(); ++worker) {
      whole_.workers[worker] = rewrite(static_cast<int32_t>(worker));
    }
    return std::move(whole_);
  }

 private:
  WorkerTrace rewrite(int32_t number) const {
    const Trace& trace = *row_.trace;
    const WorkerTrace& old = trace.workers[at(number)];
    std::vector<GroupWriter> groups;
    for (std::size_t group = 0; group < trace.gradient_groups.size(); ++group) {
      const auto& members = trace.gradient_groups[group].workers;
      const bool is_member = std::find(members.begin(), members.end(), number) != members.end();
      groups.emplace_back(trace.gradient_groups[group], is_member ? row_.run.logs[group] : kNothing,
                          first_name_[group]);
    }
    WorkerTrace worker;
    worker.ranks = old.ranks;
    std::vector<std::vector<int32_t>> stands_for(old.nodes.size());  // new nodes, by old node
    for (std::size_t index = 0; index < old.nodes.size(); ++index) {
      const TraceNode& node = old.nodes[index];
      std::vector<int32_t> after;
      for (int32_t i = old.first_dependency[index]; i < old.first_dependency[index + 1]; ++i) {
        const auto& earlier = stands_for[at(old.dependencies[at(i)])];
        after.insert(after.end(), earlier.begin(), earlier.end());
      }
      if (node.kind == TraceNodeKind::kForwardGate) {
        groups[at(node.gradient_group)].before_forward(worker, node.layer, row_.needs.step_at_once,
                                                       after);
      } else if (node.kind == TraceNodeKind::kGradient) {
        groups[at(node.gradient_group)].gradient(worker, node.layer, after);
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      const bool is_gate = node.gradient_group >= 0;
      stands_for[index] = is_gate ? std::move(after) : std::vector{worker.add(node, after)};
    }
    for (GroupWriter& group : groups) {
      group.finish(worker);
    }
    return worker;
  }

  inline static const std::vector<HostedCollective> kNothing = {};
  const TrainingRow& row_;
  Trace whole_;
  std::vector<int32_t> first_name_;  // of each group's collectives
};

}  // namespace

Trace with_gradient_collectives(const TrainingRow& row) {
  return Exporter(row).run();
}

}  // namespace pleach
