// The values of a schedule by one two-phase pass: what every legal run must give, to the bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/schedule.h"

namespace pleach::support {

using Floats = std::vector<float>;
using FloatsByRank = std::map<int32_t, Floats>;

// The left fold of the operands and of a slot's own value, which is first or at its rank's place.
inline Floats folded(const Schedule& schedule, int32_t rank, const Floats& own,
                     FloatsByRank operands) {
  operands[schedule.fold_order == FoldOrder::kByRank ? rank : -1] = own;
  Floats sum = operands.begin()->second;
  for (auto operand = std::next(operands.begin()); operand != operands.end(); ++operand) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += operand->second[i];
    }
  }
  return sum;
}

// Outputs of all ranks, `untouched` where the collective writes nothing; empty: an empty slot is
// read or reduced into. Plain transfers and float32 sums only, each step's `rounded`; well-formed
// schedules.
inline std::optional<std::vector<Floats>> two_phase_outputs(const Schedule& schedule, int64_t count,
                                                            const std::vector<Floats>& inputs,
                                                            float untouched,
                                                            float (*rounded)(float) = nullptr) {
  const Result<Placement> placement = Placement::create(schedule, count);
  const RankOfNode rank_of(schedule.participants);
  std::map<std::pair<int32_t, int32_t>, Floats> values;  // by rank and chunk
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
      if (const auto input = placement->input(Rank{rank}, chunk)) {
        const Floats& whole = inputs[at(rank)];
        values[{rank, chunk}] = Floats(whole.begin() + input->begin, whole.begin() + input->end);
      }
    }
  }
  for (int32_t step = 0; step < schedule.step_count(); ++step) {
    struct Arrival {
      int32_t source, target, chunk;
      TransferOp op;
      Floats value;
    };
    std::vector<Arrival> arrivals;
    for (const Transfer& transfer : schedule.transfers) {
      for (int32_t k = 0; k < transfer.chunk_count && transfer.step == step; ++k) {
        const int32_t chunk = transfer.first_chunk + k;
        const auto value = values.find({rank_of(transfer.source), chunk});
        if (value == values.end()) {
          return std::nullopt;
        }
        arrivals.push_back(
            {value->first.first, rank_of(transfer.target), chunk, transfer.op, value->second});
      }
    }
    std::map<std::pair<int32_t, int32_t>, FloatsByRank> folds;  // by slot, then source
    for (Arrival& arrival : arrivals) {
      const std::pair place(arrival.target, arrival.chunk);
      if (arrival.op == TransferOp::kCopy) {
        values[place] = std::move(arrival.value);
      } else if (values.count(place) == 0) {
        return std::nullopt;
      } else {
        folds[place][arrival.source] = std::move(arrival.value);
      }
    }
    for (auto& [place, operands] : folds) {
      values[place] = folded(schedule, place.first, values[place], std::move(operands));
    }
    for (auto& [place, slot] : values) {
      if (rounded != nullptr) {
        std::transform(slot.begin(), slot.end(), slot.begin(), rounded);
      }
    }
  }
  std::vector<Floats> outputs;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    Floats& output = outputs.emplace_back(at(placement->sizes(Rank{rank}).output), untouched);
    for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
      const auto interval = placement->output(Rank{rank}, chunk);
      const auto value = values.find({rank, chunk});
      if (interval && value != values.end()) {
        std::copy(value->second.begin(), value->second.end(), output.begin() + interval->begin);
      } else if (interval) {
        return std::nullopt;
      }
    }
  }
  return outputs;
}

}  // namespace pleach::support
