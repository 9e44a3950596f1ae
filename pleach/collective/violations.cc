#include "pleach/collective/violations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

bool is_node(NodeId node) {
  return node.value >= 0 && node.value < kMaxScheduleNodes;
}

void check_participants(const Schedule& schedule, Violations& violations) {
  const std::size_t count = schedule.participants.size();
  if (count < 1 || count > at(kMaxScheduleNodes)) {
    violations.add(
        fmt::format("participants: {} of them, expected 1 to {}", count, kMaxScheduleNodes));
    return;
  }
  std::vector<std::pair<NodeId, std::size_t>> by_node;
  by_node.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const NodeId node = schedule.participants[rank];
    if (!is_node(node)) {
      violations.add(fmt::format("participants[{}]: node {} is not in 0..{}", rank, node.value,
                                 kMaxScheduleNodes - 1));
    }
    by_node.emplace_back(node, rank);
  }
  std::sort(by_node.begin(), by_node.end());
  for (std::size_t i = 1; i < count && !violations.full(); ++i) {
    if (by_node[i].first == by_node[i - 1].first) {
      violations.add(fmt::format("participants[{}]: node {} is already rank {}", by_node[i].second,
                                 by_node[i].first.value, by_node[i - 1].second));
    }
  }
  const int32_t root = schedule.root.value;
  if (!has_root(schedule.collective) && root != 0) {
    violations.add(fmt::format("root: {} has none, got {}", to_text(schedule.collective), root));
  } else if (root < 0 || at(root) >= count) {
    violations.add(fmt::format("root: {} is not a rank in 0..{}", root, count - 1));
  }
}

void check_steps(const Schedule& schedule, Violations& violations) {
  if (schedule.chunks.count() > kMaxScheduleChunks) {
    violations.add(fmt::format("chunk_count: {} is more than {}", schedule.chunks.count(),
                               kMaxScheduleChunks));
  }
  if (schedule.period < 1 || schedule.period > kMaxScheduleSteps) {
    violations.add(fmt::format("period: {} is not in 1..{}", schedule.period, kMaxScheduleSteps));
  }
  int64_t sum = 0;
  for (std::size_t phase = 0; phase < schedule.phase_steps.size() && !violations.full(); ++phase) {
    const int32_t steps = schedule.phase_steps[phase];
    sum += steps;
    if (steps < 0 || sum > kMaxScheduleSteps) {
      violations.add(fmt::format("phase_steps[{}]: {} steps, {} so far; the limit is {}", phase,
                                 steps, sum, kMaxScheduleSteps));
      return;
    }
  }
}

void check_symmetry(const Schedule& schedule, Violations& violations) {
  if (!schedule.symmetry) {
    return;
  }
  int64_t order = 1;
  for (std::size_t i = 0; i < schedule.symmetry->dimensions.size(); ++i) {
    const int32_t size = schedule.symmetry->dimensions[i];
    order *= size;
    if (size < 1 || order > kMaxScheduleNodes) {
      violations.add(fmt::format("symmetry[{}]: size {} is out of range", i, size));
      return;
    }
  }
  if (order != schedule.rank_count()) {
    violations.add(fmt::format("symmetry: the dimensions multiply to {}, not to {} participants",
                               order, schedule.rank_count()));
  }
  if (has_root(schedule.collective)) {
    violations.add(
        fmt::format("symmetry: {} has a root, so no symmetry", to_text(schedule.collective)));
  }
}

// What is wrong with one transfer by itself, or nothing.
std::string transfer_fault(const Schedule& schedule, const Transfer& transfer, int32_t step_count) {
  const int32_t chunk_count = schedule.chunks.count();
  if (transfer.chunk_count < 1 || transfer.first_chunk < 0 ||
      transfer.first_chunk > chunk_count - transfer.chunk_count) {
    return fmt::format("the chunks are not within the schedule's {}", chunk_count);
  }
  for (const NodeId node : {transfer.source, transfer.target}) {
    if (!is_node(node)) {
      return fmt::format("node {} is not in 0..{}", node.value, kMaxScheduleNodes - 1);
    }
  }
  if (transfer.source == transfer.target) {
    return "source and target are the same node";
  }
  if (transfer.step < 0 || transfer.step >= step_count) {
    return fmt::format("the phases have {} steps", step_count);
  }
  if (transfer.route != kNoRoute &&
      (transfer.route < 0 || transfer.route >= schedule.routes.size())) {
    return fmt::format("route {} of {}", transfer.route, schedule.routes.size());
  }
  return "";
}

void check_transfers(const Schedule& schedule, Violations& violations) {
  if (schedule.transfers.size() > at(kMaxScheduleMoves)) {
    violations.add(fmt::format("transfers: {} of them, the limit is {}", schedule.transfers.size(),
                               kMaxScheduleMoves));
    return;
  }
  const int32_t step_count = schedule.step_count();
  int64_t moves = 0;
  for (std::size_t i = 0; i < schedule.transfers.size() && !violations.full(); ++i) {
    const Transfer& transfer = schedule.transfers[i];
    if (const std::string fault = transfer_fault(schedule, transfer, step_count); !fault.empty()) {
      violations.add(schedule, i, fault);
      continue;
    }
    moves += transfer.chunk_count;
    if (moves > kMaxScheduleMoves) {
      violations.add(schedule, i, fmt::format("more than {} chunks are moved", kMaxScheduleMoves));
      return;
    }
  }
}

void check_provenance(const Provenance& provenance, Violations& violations) {
  const Certificate& certificate = provenance.certificate;
  for (const std::string* text :
       {&provenance.algorithm, &provenance.options, &certificate.witness}) {
    if (!is_utf8(*text)) {
      violations.add(fmt::format("provenance: {} is malformed UTF-8", quoted(*text)));
    }
    if (std::any_of(text->begin(), text->end(), [](char letter) {
          return static_cast<unsigned char>(letter) < ' ' || letter == '\x7f';
        })) {
      violations.add(fmt::format("provenance: {} has a control character", quoted(*text)));
    }
  }
  for (const double number :
       {certificate.bound_algbw_bytes_per_s, certificate.algbw_bytes_per_s, certificate.fraction,
        certificate.alpha_s, certificate.beta_s_per_byte}) {
    if (!std::isfinite(number)) {
      violations.add(fmt::format("certificate: {} is not finite", number));
    }
  }
}

void check_links(const Schedule& schedule, Violations& violations) {
  for (int32_t route = 0; route < schedule.routes.size() && !violations.full(); ++route) {
    for (const LinkId link : schedule.routes[route]) {
      if (link.value < 0 || link.value >= kMaxScheduleLinks) {
        violations.add(fmt::format("routes[{}]: link {} is not in 0..{}", route, link.value,
                                   kMaxScheduleLinks - 1));
        break;
      }
    }
    if (schedule.routes[route].empty()) {
      violations.add(fmt::format("routes[{}]: has no links", route));
    }
  }
}

}  // namespace

void Violations::add(const Schedule& schedule, std::size_t transfer, const std::string& why) {
  if (full()) {
    return;
  }
  const Transfer& t = schedule.transfers[transfer];
  const auto node = [](NodeId id, uint16_t pass) {
    return fmt::format("node {}{}", id.value, pass == 0 ? "" : fmt::format(" (pass {})", pass));
  };
  add(fmt::format("transfers[{}] (chunks [{}, {}), {} -> {}, {}, step {}): {}", transfer,
                  t.first_chunk, int64_t{t.first_chunk} + t.chunk_count,
                  node(t.source, t.source_pass), node(t.target, t.target_pass),
                  t.op == TransferOp::kReduce ? "reduce" : "copy", t.step, why));
}

void check_ranges(const Schedule& schedule, Violations& violations) {
  check_participants(schedule, violations);
  check_steps(schedule, violations);
  check_symmetry(schedule, violations);
  check_provenance(schedule.provenance, violations);
  if (violations.empty()) {
    check_links(schedule, violations);
    check_transfers(schedule, violations);
  }
}

Status refuse_bad_ranges(const Schedule& schedule) {
  Violations violations(1);
  check_ranges(schedule, violations);
  if (violations.empty()) {
    return ok();
  }
  return invalid(std::move(violations).take().front());
}

Result<Schedule> finish_reading(Schedule schedule, const std::string& path) {
  if (const Status status = refuse_bad_ranges(schedule); !status) {
    return Error{status.error().code, fmt::format("{}: {}", path, status.error().message)};
  }
  sort_transfers(schedule);
  return schedule;
}

}  // namespace pleach
