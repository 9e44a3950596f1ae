#include "pleach/planning/cost_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "pleach/base/units.h"
#include "pleach/network/model.h"
#include "pleach/planning/message.h"
#include "pleach/planning/network_timer.h"
#include "pleach/planning/padding.h"

namespace pleach {
namespace {

constexpr std::size_t kMostSimulations = 40;
constexpr int64_t kFirstSize = 1 << 10;     // of the start sizes above one byte
constexpr int64_t kManySegments = 100'000;  // in one simulation: start with fewer sizes
constexpr int32_t kSegmentsTried = 128;     // in all, where the best number is looked for
constexpr double kSendTolerance = 0.005;

// Schedules that start together, timed at one size after the other.
class Timer {
 public:
  struct Timed {
    int64_t time_ps = 0;
    int32_t segment_count = 1;
  };
  // segment_count: none: as the planner has it.
  using Choose =
      std::function<Result<CommonChoice>(int64_t size_bytes, std::optional<int32_t> segment_count)>;

  // Borrows `topology`.
  Timer(const Topology& topology, std::string model, SimulationOptions simulation, Choose choose)
      : network_(topology, std::move(model), std::move(simulation)), choose_(std::move(choose)) {}

  // Until the last of them ends.
  Result<Timed> time(int64_t size_bytes, std::optional<int32_t> segment_count) {
    PLEACH_ASSIGN(choice, choose_(size_bytes, segment_count));
    if (choice.time_ps) {
      return Timed{*choice.time_ps, choice.segment_count};
    }
    std::vector<Job> jobs;
    for (std::size_t index = 0; index < choice.schedules.size(); ++index) {
      jobs.push_back({choice.schedules[index], choice.bytes_of(index, size_bytes)});
    }
    PLEACH_ASSIGN(time_ps, network_.time_ps(jobs, choice.segment_count));
    return Timed{time_ps, choice.segment_count};
  }

 private:
  NetworkTimer network_;
  const Choose choose_;
};

struct Sampling {
  int64_t largest_bytes = 0;
  double tolerance = 0;
  int64_t unit_bytes = 1;                 // sizes are multiples
  int64_t segment_count = 1;              // of messages, in one simulation
  std::vector<int64_t> sizes_bytes = {};  // ascending, each once; empty: those that are chosen
};

// Time on the line from one sample to the next, or beyond.
int64_t on_line(const CostCurve::Sample& from, const CostCurve::Sample& to, int64_t size_bytes) {
  const __int128 rise = to.time_ps - from.time_ps;
  const __int128 time =
      from.time_ps + rise * (size_bytes - from.size_bytes) / (to.size_bytes - from.size_bytes);
  return static_cast<int64_t>(std::min<__int128>(time, kLongestPs));
}

// Simulated sizes, and the pieces between them that are still to be looked at.
class Sampler {
 public:
  Sampler(Timer& timer, const Sampling& sampling) : timer_(timer), sampling_(sampling) {}

  Result<std::vector<CostCurve::Sample>> run() {
    const std::vector<int64_t>& sizes_bytes = sampling_.sizes_bytes;
    return sizes_bytes.empty() ? run_at_chosen() : run_at(sizes_bytes);
  }

 private:
  struct Piece {
    int64_t low_bytes = 0;
    int64_t high_bytes = 0;
  };

  // One byte, then powers of 8 from 1 KiB (of 512 where a simulation is long), and the largest.
  // Then, widest first, the geometric middle of every piece; where the line was off by more than
  // the tolerance, the two halves, until all pieces are good or kMostSimulations are spent.
  Result<std::vector<CostCurve::Sample>> run_at_chosen() {
    PLEACH_TRY(add(rounded(1)));
    const int64_t factor = sampling_.segment_count > kManySegments ? 512 : 8;
    for (int64_t size = kFirstSize; size < sampling_.largest_bytes; size *= factor) {
      PLEACH_TRY(add(rounded(size)));
      if (size > sampling_.largest_bytes / factor) {
        break;
      }
    }
    PLEACH_TRY(add(rounded(sampling_.largest_bytes)));
    for (auto low = times_.begin(); std::next(low) != times_.end(); ++low) {
      pieces_.push_back({low->first, std::next(low)->first});
    }
    while (!pieces_.empty() && times_.size() < kMostSimulations) {
      const Piece piece = pieces_.front();
      pieces_.pop_front();
      PLEACH_TRY(split(piece));
    }
    std::vector<CostCurve::Sample> samples;
    for (const auto& [size_bytes, timed] : times_) {
      samples.push_back({size_bytes, timed.time_ps});
    }
    return samples;
  }
  // The first and the last, then the middle one of those between two.
  Result<std::vector<CostCurve::Sample>> run_at(std::span<const int64_t> sizes_bytes) {
    PLEACH_TRY(add(rounded(sizes_bytes.front())));
    PLEACH_TRY(add(rounded(sizes_bytes.back())));
    std::deque<std::span<const int64_t>> runs = {sizes_bytes};
    while (!runs.empty()) {
      const std::span<const int64_t> run = runs.front();
      runs.pop_front();
      if (run.size() > 2) {
        const std::size_t middle = run.size() / 2;
        PLEACH_TRY(add_between({rounded(run.front()), rounded(run.back())}, rounded(run[middle])));
        runs.push_back(run.first(middle + 1));
        runs.push_back(run.subspan(middle));
      }
    }
    std::vector<CostCurve::Sample> samples;
    for (const int64_t size_bytes : sizes_bytes) {
      samples.push_back({size_bytes, times_[rounded(size_bytes)].time_ps});
    }
    return samples;
  }

  int64_t rounded(int64_t size_bytes) const {
    return padded_bytes(size_bytes, sampling_.unit_bytes);
  }
  // Sizes are rounded.
  Status add(int64_t size_bytes, std::optional<int32_t> segment_count = {}) {
    if (times_.count(size_bytes) == 0) {
      PLEACH_SET(times_[size_bytes], timer_.time(size_bytes, segment_count));
    }
    return ok();
  }
  Status add_between(const Piece& piece, int64_t size_bytes) {
    const int32_t low = times_[piece.low_bytes].segment_count;
    const int32_t high = times_[piece.high_bytes].segment_count;
    return add(size_bytes, low == high ? std::optional(low) : std::nullopt);
  }
  Status split(const Piece& piece) {
    const auto [low_bytes, high_bytes] = piece;
    const double middle =
        std::sqrt(static_cast<double>(low_bytes) * static_cast<double>(high_bytes));
    const int64_t size_bytes = rounded(static_cast<int64_t>(middle));
    if (size_bytes <= low_bytes || size_bytes >= high_bytes) {
      return ok();
    }
    const int64_t guess_ps = on_line({low_bytes, times_[low_bytes].time_ps},
                                     {high_bytes, times_[high_bytes].time_ps}, size_bytes);
    PLEACH_TRY(add_between(piece, size_bytes));
    const auto time_ps = static_cast<double>(times_[size_bytes].time_ps);
    if (std::abs(time_ps - static_cast<double>(guess_ps)) > sampling_.tolerance * time_ps) {
      pieces_.push_back({low_bytes, size_bytes});
      pieces_.push_back({size_bytes, high_bytes});
    }
    return ok();
  }

  Timer& timer_;
  Sampling sampling_;
  std::map<int64_t, Timer::Timed> times_;  // by size
  std::deque<Piece> pieces_;
};

Result<CostCurve> measure_curve(Timer timer, Sampling sampling) {
  if (!(sampling.tolerance > 0)) {
    return invalid(fmt::format("tolerance {}: must be positive", sampling.tolerance));
  }
  sampling.largest_bytes = std::max(2 * sampling.unit_bytes, sampling.largest_bytes);
  for (const int64_t size_bytes : sampling.sizes_bytes) {
    if (size_bytes < 1) {
      return invalid(fmt::format("a curve at {} bytes", size_bytes));
    }
  }
  std::ranges::sort(sampling.sizes_bytes);
  const auto repeated = std::ranges::unique(sampling.sizes_bytes);
  sampling.sizes_bytes.erase(repeated.begin(), repeated.end());
  PLEACH_ASSIGN(samples, Sampler(timer, sampling).run());
  return CostCurve::from_samples(std::move(samples));
}

// Nothing to wait for, whatever the size.
CostCurve no_time() {
  return CostCurve::from_samples({{1, 0}});
}

// Those that have anything to do.
Result<std::vector<std::vector<NodeId>>> larger_groups(const CurveRequest& request) {
  if (request.groups.empty()) {
    return invalid(fmt::format("no group does the {}", to_text(request.collective)));
  }
  std::vector<std::vector<NodeId>> larger;
  for (const std::vector<NodeId>& group : request.groups) {
    if (group.empty()) {
      return invalid(fmt::format("group {} has no ranks", &group - request.groups.data()));
    }
    if (group.size() > 1 || request.by_io) {
      larger.push_back(group);
    }
  }
  return larger;
}

Sampling sampling_of(const CurveRequest& request,
                     std::span<const std::shared_ptr<const Schedule>> schedules) {
  Sampling sampling{.largest_bytes = request.largest_bytes,
                    .tolerance = request.tolerance,
                    .segment_count = 0,
                    .sizes_bytes = request.sizes_bytes};
  for (const auto& schedule : schedules) {
    sampling.segment_count +=
        schedule->transfer_count() * request.planner.segment_count().value_or(kSegmentsTried);
  }
  return sampling;
}

Result<Sampling> sampling_of(const CurveRequest& request,
                             std::span<const std::vector<NodeId>> groups) {
  PLEACH_ASSIGN(schedules, request.planner.schedules(request.collective, groups, 1));
  Sampling sampling = sampling_of(request, schedules);
  for (const auto& schedule : schedules) {
    const int64_t own_bytes =
        padding_unit_bytes(*schedule, request.planner.segment_count().value_or(1));
    if (own_bytes <= (int64_t{1} << 40) / sampling.unit_bytes) {
      sampling.unit_bytes = std::lcm(sampling.unit_bytes, own_bytes);
    }
  }
  return sampling;
}

// Parts of the size are padded each by itself. All nodes have one of the largest.
Result<Sampling> io_sampling(const CurveRequest& request,
                             std::span<const std::vector<NodeId>> groups) {
  PLEACH_ASSIGN(choice,
                request.planner.choose_io(request.collective, groups, request.largest_bytes, 1));
  return sampling_of(request, choice.schedules);
}

}  // namespace

Result<CostCurve> CostCurve::measure(const CurveRequest& request) {
  PLEACH_ASSIGN(groups, larger_groups(request));
  if (groups.empty()) {
    return no_time();
  }
  const auto choose = [&](int64_t size_bytes, std::optional<int32_t> segment_count) {
    return request.by_io
               ? request.planner.choose_io(request.collective, groups, size_bytes, segment_count)
               : request.planner.choose_together(request.collective, groups, size_bytes,
                                                 segment_count);
  };
  PLEACH_ASSIGN(sampling,
                request.by_io ? io_sampling(request, groups) : sampling_of(request, groups));
  return measure_curve(Timer(request.topology, request.model, request.simulation, choose),
                       sampling);
}

CostCurve CostCurve::from_samples(std::vector<Sample> samples) {
  PLEACH_CHECK(!samples.empty(), "a curve has samples");
  CostCurve curve;
  curve.samples_ = std::move(samples);
  int64_t longest_ps = 0;
  for (Sample& sample : curve.samples_) {
    sample.time_ps = longest_ps = std::max(longest_ps, sample.time_ps);
  }
  return curve;
}

int64_t CostCurve::time_ps(int64_t size_bytes) const {
  if (size_bytes <= 0) {
    return 0;
  }
  if (size_bytes <= samples_.front().size_bytes || samples_.size() == 1) {
    return samples_.front().time_ps;
  }
  auto next =
      std::lower_bound(samples_.begin(), samples_.end(), size_bytes,
                       [](const Sample& sample, int64_t size) { return sample.size_bytes < size; });
  if (next == samples_.end()) {
    --next;
  }
  return on_line(*std::prev(next), *next, size_bytes);
}

Result<CostCurve> measure_send(const SendRequest& request) {
  if (request.pairs.empty()) {
    return invalid("no pair sends");
  }
  CommonChoice messages;
  for (std::size_t pair = 0; pair < request.pairs.size(); ++pair) {
    const auto [source, target] = request.pairs[pair];
    for (const NodeId node : {source, target}) {
      if (node.value < 0 || node.index() >= request.topology.nodes().size()) {
        return invalid(
            fmt::format("pair {}: {} is no node of {}", pair, node.value, request.topology.name()));
      }
    }
    if (source != target) {
      messages.schedules.push_back(message_schedule(source, target));
    }
  }
  if (messages.schedules.empty()) {
    return no_time();
  }
  const auto choose = [&](int64_t, std::optional<int32_t>) -> Result<CommonChoice> {
    return messages;
  };
  return measure_curve(Timer(request.topology, request.model, request.simulation, choose),
                       {.largest_bytes = request.largest_bytes, .tolerance = kSendTolerance});
}

}  // namespace pleach
