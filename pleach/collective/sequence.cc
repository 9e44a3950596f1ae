// sequence: two schedules as one, on the common refinement of their grids.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/route_index.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"

namespace pleach {
namespace {

// The grid that has the boundaries of both, and where each one's chunks begin in it.
struct Refinement {
  ChunkGrid grid;
  std::vector<int32_t> first_map;  // by chunk of the first; count() maps to the end
  std::vector<int32_t> second_map;
};

Result<Refinement> refine(const ChunkGrid& first, const ChunkGrid& second) {
  // Both totals are scaled to their least common multiple: all boundaries stay exact.
  const int64_t divisor = std::gcd(first.total(), second.total());
  const __int128 common = static_cast<__int128>(first.total() / divisor) * second.total();
  if (common > INT64_MAX) {
    return invalid(fmt::format("chunk weights of sums {} and {} have no common multiple in int64",
                               first.total(), second.total()));
  }
  const int64_t first_scale = second.total() / divisor;
  const int64_t second_scale = first.total() / divisor;
  Refinement result;
  std::vector<int64_t> weights;
  int64_t position = 0;
  for (int32_t i = 0, j = 0;;) {
    const int64_t next_first = first.cumulative(i) * first_scale;
    const int64_t next_second = second.cumulative(j) * second_scale;
    const int64_t next = std::min(next_first, next_second);
    if (next > position) {
      weights.push_back(next - position);
      position = next;
    }
    if (std::ssize(weights) > kMaxScheduleChunks) {
      return invalid(fmt::format("grids of {} and {} chunks refine to more than {}", first.count(),
                                 second.count(), kMaxScheduleChunks));
    }
    const auto chunk = count_of(weights);
    if (next_first == next) {
      result.first_map.push_back(chunk);
      i = std::min(i + 1, first.count());
    }
    if (next_second == next) {
      result.second_map.push_back(chunk);
      j = std::min(j + 1, second.count());
    }
    if (next == common) {
      break;
    }
  }
  const bool is_uniform = std::all_of(weights.begin(), weights.end(),
                                      [&](int64_t weight) { return weight == weights.front(); });
  result.grid =
      is_uniform ? ChunkGrid::uniform(count_of(weights)) : ChunkGrid::weighted(std::move(weights));
  return result;
}

bool folds(const Schedule& schedule) {
  return std::ranges::any_of(schedule.transfers, [](const Transfer& transfer) {
    return transfer.op == TransferOp::kReduce;
  });
}

std::optional<Error> mismatch(const Schedule& first, const Schedule& second,
                              CollectiveKind collective) {
  if (first.participants != second.participants) {
    return invalid("the participants differ");
  }
  if (first.symmetry != second.symmetry) {
    return invalid("the symmetries differ");
  }
  const auto is_exchange = [](CollectiveKind kind) { return kind == CollectiveKind::kAllToAll; };
  if (is_exchange(first.collective) != is_exchange(collective) ||
      is_exchange(second.collective) != is_exchange(collective)) {
    return invalid(fmt::format("chunks of {} and {} for {} are not of one space",
                               to_text(first.collective), to_text(second.collective),
                               to_text(collective)));
  }
  if (int64_t{first.step_count()} + second.step_count() > kMaxScheduleSteps) {
    return invalid(fmt::format("{} and {} steps are more than {}", first.step_count(),
                               second.step_count(), kMaxScheduleSteps));
  }
  if (folds(first) && folds(second) && first.fold_order != second.fold_order) {
    return invalid("the fold orders differ");
  }
  if (first.symmetry && has_root(collective)) {
    return invalid(fmt::format("{} has a root, so no symmetry", to_text(collective)));
  }
  return std::nullopt;
}

// Adds the transfers of one part, moved to the refined grid and by `step_offset`.
void append(Schedule& result, RouteIndex& routes, const Schedule& part,
            const std::vector<int32_t>& chunk_map, int32_t step_offset) {
  std::vector<int32_t> route_of(at(part.routes.size()));
  for (int32_t route = 0; route < part.routes.size(); ++route) {
    route_of[at(route)] = routes.find_or_add(part.routes[route]);
  }
  for (Transfer transfer : part.transfers) {
    check_interruption();
    const auto begin = at(transfer.first_chunk);
    const auto end = begin + at(transfer.chunk_count);
    transfer.first_chunk = chunk_map[begin];
    transfer.chunk_count = chunk_map[end] - chunk_map[begin];
    transfer.step += step_offset;
    if (transfer.route != kNoRoute) {
      transfer.route = route_of[at(transfer.route)];
    }
    result.transfers.push_back(transfer);
  }
  result.phase_steps.insert(result.phase_steps.end(), part.phase_steps.begin(),
                            part.phase_steps.end());
}

template <typename T>
T agreed(const T& first, const T& second) {
  return first == second ? first : T{};
}

}  // namespace

Result<Schedule> sequence(const Schedule& first, const Schedule& second,
                          CollectiveKind collective) {
  if (const auto error = mismatch(first, second, collective)) {
    return *error;
  }
  PLEACH_ASSIGN(refined, refine(first.chunks, second.chunks));
  Schedule result;
  result.collective = collective;
  if (has_root(collective)) {
    result.root = has_root(first.collective) ? first.root : second.root;
  }
  result.participants = first.participants;
  result.chunks = std::move(refined.grid);
  result.fold_order = folds(first) ? first.fold_order : second.fold_order;
  result.symmetry = first.symmetry;
  if (result.symmetry) {
    if (const std::string fault = symmetric_grid_fault(result); !fault.empty()) {
      return invalid("the refined grid lacks the symmetry: " + fault);
    }
  }
  result.provenance.algorithm = agreed(first.provenance.algorithm, second.provenance.algorithm);
  result.provenance.options = agreed(first.provenance.options, second.provenance.options);
  result.provenance.topology_fingerprint =
      agreed(first.provenance.topology_fingerprint, second.provenance.topology_fingerprint);
  result.transfers.reserve(first.transfers.size() + second.transfers.size());
  RouteIndex routes(result.routes);
  append(result, routes, first, refined.first_map, 0);
  append(result, routes, second, refined.second_map, first.step_count());
  result.period = std::max(result.step_count(), 1);
  sort_transfers(result);
  return result;
}

}  // namespace pleach
