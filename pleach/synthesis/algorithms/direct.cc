// Direct exchange: every rank sends to every other rank at once.
#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

// Calls send(source, target) for every ordered pair, by source.
template <typename Send>
void for_each_pair(int32_t rank_count, Send send) {
  for (int32_t source = 0; source < rank_count; ++source) {
    for (int32_t target = 0; target < rank_count; ++target) {
      if (source != target) {
        send(source, target);
      }
    }
  }
}

Result<Schedule> reduce_scatter(const SynthesisRequest& request) {
  const auto rank_count = count_of(request.participants);
  ScheduleBuilder builder(request, CollectiveKind::kReduceScatter, rank_count);
  for_each_pair(rank_count, [&builder](int32_t source, int32_t target) {
    builder.send({.first_chunk = target, .op = TransferOp::kReduce}, source, target);
  });
  return std::move(builder).finish({1});
}

Result<Schedule> all_gather(const SynthesisRequest& request) {
  const auto rank_count = count_of(request.participants);
  ScheduleBuilder builder(request, CollectiveKind::kAllGather, rank_count);
  for_each_pair(rank_count, [&builder](int32_t source, int32_t target) {
    builder.send({.first_chunk = source}, source, target);
  });
  return std::move(builder).finish({1});
}

Result<Schedule> one_shot(const SynthesisRequest& request) {
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, 1);
  builder.fold_by_rank();  // so that all fold alike
  for_each_pair(builder.rank_count(), [&builder](int32_t source, int32_t target) {
    builder.send({.op = TransferOp::kReduce}, source, target);
  });
  return std::move(builder).finish({1});
}

Result<Schedule> all_to_all(const SynthesisRequest& request) {
  const auto rank_count = count_of(request.participants);
  ScheduleBuilder builder(request, CollectiveKind::kAllToAll, rank_count * rank_count);
  for_each_pair(rank_count, [&builder, rank_count](int32_t source, int32_t target) {
    builder.send({.first_chunk = source * rank_count + target}, source, target);
  });
  return std::move(builder).finish({1});
}

// The root and each other rank: all of the buffer, or that rank's shard.
Result<Schedule> star(const SynthesisRequest& request) {
  const auto rank_count = count_of(request.participants);
  const auto chunk_count = static_cast<int32_t>(part_count(request.collective, rank_count));
  ScheduleBuilder builder(request, request.collective, chunk_count);
  const int32_t root = request.root.value;
  const TransferOp op = reduces(request.collective) ? TransferOp::kReduce : TransferOp::kCopy;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    if (rank == root) {
      continue;
    }
    const int32_t chunk = chunk_count == 1 ? 0 : rank;
    if (is_from_root(request.collective)) {
      builder.send({.first_chunk = chunk, .op = op}, root, rank);
    } else {
      builder.send({.first_chunk = chunk, .op = op}, rank, root);
    }
  }
  return std::move(builder).finish({1});
}

Result<Schedule> direct(const SynthesisRequest& request, const Options& options) {
  const bool is_one_shot = options.text("mode") == "one_shot";
  if (is_one_shot && request.collective != CollectiveKind::kAllReduce) {
    return invalid(
        fmt::format("mode=one_shot is for all_reduce, not {}", to_text(request.collective)));
  }
  if (has_root(request.collective)) {
    return star(request);
  }
  const auto rank_count = static_cast<int64_t>(request.participants.size());
  PLEACH_TRY(check_size(2 * rank_count * rank_count, 0));
  switch (request.collective) {
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(request);
    case CollectiveKind::kAllGather:
      return all_gather(request);
    case CollectiveKind::kAllToAll:
      return all_to_all(request);
    default:
      break;
  }
  if (is_one_shot) {
    return one_shot(request);
  }
  PLEACH_ASSIGN(first, reduce_scatter(request));
  PLEACH_ASSIGN(second, all_gather(request));
  return sequence(first, second, CollectiveKind::kAllReduce);
}

}  // namespace

extern const Algorithm kDirect = {
    .name = "direct",
    .summary = "every rank sends to every other at once",
    .source =
        "Thakur, Rabenseifner & Gropp 2005, sec. 4 (pairwise); NVIDIA TensorRT-LLM's one-shot "
        "and two-shot all_reduce",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast, CollectiveKind::kReduce,
                    CollectiveKind::kAllToAll, CollectiveKind::kGather, CollectiveKind::kScatter},
    .options = {{.name = "mode",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "two_step",
                 .summary = "all_reduce: reduce_scatter and all_gather, or every rank sends its "
                            "whole buffer to all others",
                 .allowed = {"two_step", "one_shot"}}},
    .create = &direct,
    .variants = {"mode=one_shot"},
};

}  // namespace pleach
