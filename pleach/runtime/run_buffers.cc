#include "pleach/runtime/run_buffers.h"

#include <fmt/format.h>

#include <cstdint>

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

}  // namespace

BufferNeeds buffer_needs(const Schedule& schedule, const Placement& placement, Rank rank,
                         ElementType type) {
  const int64_t element = element_bytes(type);
  const BufferSizes sizes = placement.sizes(rank);
  const bool is_root = rank == schedule.root;
  const bool has_input = !is_from_root(schedule.collective) || is_root;
  const bool has_output = !is_to_root(schedule.collective) || is_root;
  return {.element = element,
          .input = has_input ? sizes.input * element : 0,
          .output = has_output ? sizes.output * element : 0,
          .shard_begin = placement.is_pieced() ? -1 : placement.part_begin(rank.value) * element};
}

Result<RunBuffers> check_buffers(CollectiveKind collective, const BufferNeeds& needs,
                                 const RunRequest& request) {
  PLEACH_TRY(check_one("input", request.input, needs.input, needs.element));
  PLEACH_TRY(check_one("output", request.output, needs.output, needs.element));
  RunBuffers buffers{false, request.input, request.output};
  // Where the root alone gives or ends with the whole, others may pass it all the same.
  const bool has_shards = gives_shards(collective) || ends_with_shards(collective);
  const bool is_whole = has_shards && request.input == request.output && request.input != nullptr;
  if (!is_whole && !overlap(request.input, needs.input, request.output, needs.output)) {
    return buffers;
  }
  buffers.in_place = true;
  if (request.input == request.output) {
    return buffers;
  }
  const bool is_one_shard = needs.shard_begin >= 0;
  if (is_one_shard && gives_shards(collective) &&
      request.input == request.output + needs.shard_begin) {
    return buffers;
  }
  if (is_one_shard && ends_with_shards(collective) &&
      request.output == request.input + needs.shard_begin) {
    buffers.output -= needs.shard_begin;
    return buffers;
  }
  return invalid(
      fmt::format("the input ({} bytes) and the output ({} bytes) overlap in part: they "
                  "must be apart, or the same",
                  needs.input, needs.output));
}

ReducedParts reduced_parts(const Schedule& schedule, const Placement& placement, Rank rank) {
  ReducedParts parts;
  if (!reduces(schedule.collective)) {
    return parts;
  }
  if (!ends_with_shards(schedule.collective)) {
    if (!is_to_root(schedule.collective) || rank == schedule.root) {
      parts.in_whole = {{0, placement.sizes(rank).output}};
      parts.apart = parts.in_whole;
    }
    return parts;
  }
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    const int64_t begin = placement.begin(chunk);
    const int64_t end = begin + placement.length(chunk);
    if (!has_output(schedule, rank, chunk) || begin == end) {
      continue;
    }
    if (!parts.in_whole.empty() && parts.in_whole.back().end == begin) {
      parts.in_whole.back().end = end;
    } else {
      parts.in_whole.push_back({begin, end});
    }
  }
  parts.apart = {{0, placement.sizes(rank).output}};
  return parts;
}

}  // namespace pleach
