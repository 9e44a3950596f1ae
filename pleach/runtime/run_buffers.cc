#include "pleach/runtime/run_buffers.h"

#include <fmt/format.h>

#include <cstdint>

#include "pleach/collective/chunk_grid.h"
#include "pleach/collective/placement.h"

namespace pleach {
namespace {

Status check_one(const char* name, const std::byte* buffer, int64_t bytes, int64_t alignment) {
  if (bytes > 0 && buffer == nullptr) {
    return invalid(fmt::format("the {} of {} bytes is null", name, bytes));
  }
  if (reinterpret_cast<uintptr_t>(buffer) % static_cast<uintptr_t>(alignment) != 0) {
    return invalid(
        fmt::format("the {} is not aligned to its elements of {} bytes", name, alignment));
  }
  return ok();
}

bool overlap(const std::byte* first, int64_t first_bytes, const std::byte* second,
             int64_t second_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(first);
  const auto other = reinterpret_cast<uintptr_t>(second);
  return begin < other + static_cast<uintptr_t>(second_bytes) &&
         other < begin + static_cast<uintptr_t>(first_bytes);
}

// First element of a rank's shard.
int64_t shard_begin(const Schedule& schedule, int64_t count, int32_t rank) {
  return segment_boundary(0, count, rank, schedule.rank_count());
}

}  // namespace

Result<BufferNeeds> buffer_needs(const Schedule& schedule, Rank rank, ElementType type,
                                 int64_t count) {
  const int64_t element = element_bytes(type);
  // All ranks' buffers together must be countable in bytes.
  if (count > INT64_MAX / element / schedule.rank_count()) {
    return invalid(fmt::format("{} elements are too many", count));
  }
  PLEACH_ASSIGN(placement, Placement::create(schedule, count));
  const BufferSizes sizes = placement.sizes(rank);
  const bool is_root = rank == schedule.root;
  const bool has_input = !is_from_root(schedule.collective) || is_root;
  const bool has_output = !is_to_root(schedule.collective) || is_root;
  return BufferNeeds{.element = element,
                     .input = has_input ? sizes.input * element : 0,
                     .output = has_output ? sizes.output * element : 0,
                     .shard_begin = shard_begin(schedule, count, rank.value) * element};
}

Result<RunBuffers> check_buffers(CollectiveKind collective, const BufferNeeds& needs,
                                 const RunRequest& request) {
  PLEACH_TRY(check_one("input", request.input, needs.input, needs.element));
  PLEACH_TRY(check_one("output", request.output, needs.output, needs.element));
  RunBuffers buffers{false, request.input, request.output};
  const bool has_shards = gives_shards(collective) || ends_with_shards(collective);
  // Where the root alone gives or ends with the whole, others may pass it all the same.
  const bool is_whole = has_shards && request.input == request.output && request.input != nullptr;
  if (!is_whole && !overlap(request.input, needs.input, request.output, needs.output)) {
    return buffers;
  }
  buffers.in_place = true;
  if (request.input == request.output) {
    return buffers;
  }
  if (gives_shards(collective) && request.input == request.output + needs.shard_begin) {
    return buffers;
  }
  if (ends_with_shards(collective) && request.output == request.input + needs.shard_begin) {
    buffers.output -= needs.shard_begin;
    return buffers;
  }
  return invalid(
      fmt::format("the input ({} bytes) and the output ({} bytes) overlap in part: they "
                  "must be apart, or the same",
                  needs.input, needs.output));
}

ReducedPart reduced_part(const Schedule& schedule, Rank rank, const RunRequest& request,
                         const RunBuffers& buffers) {
  switch (schedule.collective) {
    case CollectiveKind::kAllReduce:
      return {buffers.output, request.count};
    case CollectiveKind::kReduce:
      return rank == schedule.root ? ReducedPart{buffers.output, request.count} : ReducedPart{};
    case CollectiveKind::kReduceScatter: {
      const int64_t begin = shard_begin(schedule, request.count, rank.value);
      const int64_t end = shard_begin(schedule, request.count, rank.value + 1);
      const int64_t skipped = buffers.in_place ? begin * element_bytes(request.type) : 0;
      return {buffers.output + skipped, end - begin};
    }
    default:
      return {};
  }
}

}  // namespace pleach
