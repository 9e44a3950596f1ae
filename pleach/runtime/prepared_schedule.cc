#include "pleach/runtime/prepared_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/collective/program.h"
#include "pleach/collective/verify.h"

namespace pleach {

PreparedSchedule::PreparedSchedule(Schedule schedule, Order order, Preparer preparer)
    : schedule_(std::move(schedule)),
      order_(std::move(order)),
      preparer_(std::move(preparer)),
      hash_(schedule_hash(schedule_)) {
  for (const Transfer& transfer : schedule_.transfers) {
    const int64_t weight =
        schedule_.chunks.cumulative(transfer.first_chunk + transfer.chunk_count) -
        schedule_.chunks.cumulative(transfer.first_chunk);
    most_weight_ = std::max(most_weight_, weight);
    most_chunks_ = std::max<int64_t>(most_chunks_, transfer.chunk_count);
  }
}

Result<std::shared_ptr<const PreparedSchedule>> PreparedSchedule::prove(std::string_view bytes,
                                                                        const Preparer& preparer) {
  for (const ScheduleFormat* format : schedule_formats()) {
    if (!format->recognises(bytes)) {
      continue;
    }
    PLEACH_ASSIGN(schedule, format->read(bytes, "schedule of rank 0"));
    if (schedule.rank_count() != count_of(preparer.job_ranks)) {
      return invalid(fmt::format("the schedule is for {} ranks, the communicator has {}",
                                 schedule.rank_count(), preparer.job_ranks.size()));
    }
    const Verification proof = verify(schedule, nullptr);
    if (!proof.correct) {
      return invalid("the schedule is wrong: " +
                     (proof.violations.empty() ? "no proof" : proof.violations.front()));
    }
    if (std::optional<MergedChunks> merged = merge_alike_chunks(schedule)) {
      schedule = std::move(merged->schedule);
    }
    PLEACH_TRY(check_switchless(schedule));
    Order order = Order::build(schedule);
    return std::shared_ptr<const PreparedSchedule>(
        std::make_shared<PreparedSchedule>(std::move(schedule), std::move(order), preparer));
  }
  return invalid("rank 0 sent bytes in no known schedule format");
}

// As many segments of whole messages as it takes, besides those asked for, until each fits a
// place. The same on all ranks.
Result<int32_t> PreparedSchedule::segments(const Key& key) const {
  if (key.segment_count < 1 || key.segment_count > kMostSegments) {
    return invalid(fmt::format("{} segments are not in [1, {}]", key.segment_count, kMostSegments));
  }
  // No message is longer, whatever the rounding.
  const bool is_exchange = schedule_.collective == CollectiveKind::kAllToAll;
  const __int128 space =
      static_cast<__int128>(key.count) * (is_exchange ? schedule_.rank_count() : 1);
  const int64_t total = schedule_.chunks.total();
  const auto elements = static_cast<int64_t>((space * most_weight_ + total - 1) / total);
  const int64_t place = preparer_.place_bytes / element_bytes(key.type);
  if (elements <= place) {
    return key.segment_count;
  }
  // Every chunk of a segment may be rounded up.
  const int64_t least =
      place > most_chunks_ ? (elements - 1) / (place - most_chunks_) + 1 : INT64_MAX;
  if (least > kMostSegments) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("a message of {} elements in {} chunks takes more than {} segments to "
                             "fit landing places of {} bytes",
                             elements, most_chunks_, kMostSegments, preparer_.place_bytes)};
  }
  return std::max(key.segment_count, static_cast<int32_t>(least));
}

Result<PreparedSchedule::Kind> PreparedSchedule::make_kind(const Key& key) const {
  Kind kind;
  PLEACH_TRY(check_reduction(key.type, key.op));
  PLEACH_SET(kind.needs, buffer_needs(schedule_, preparer_.rank, key.type, key.count));
  PLEACH_SET(kind.segment_count, segments(key));
  Fingerprint fingerprint;
  fingerprint.add(hash_);
  fingerprint.add(static_cast<int32_t>(key.type));
  fingerprint.add(static_cast<int32_t>(key.op));
  fingerprint.add(key.count);
  fingerprint.add(kind.segment_count);
  kind.fingerprint = fingerprint.value();
  return kind;
}

Result<PreparedSchedule::Kind*> PreparedSchedule::find_kind(const Key& key) const {
  constexpr std::size_t kMostKept = 64;
  if (kinds_.last != nullptr && kinds_.last->first == key) {
    return &kinds_.last->second;
  }
  auto found = kinds_.all.find(key);
  if (found == kinds_.all.end()) {
    PLEACH_ASSIGN(kind, make_kind(key));
    if (kinds_.all.size() == kMostKept) {
      kinds_.all.clear();
    }
    found = kinds_.all.emplace(key, std::move(kind)).first;
  }
  kinds_.last = &*found;
  return &found->second;
}

Result<PreparedSchedule::Planned> PreparedSchedule::plan(const RunRequest& request) const {
  const std::scoped_lock lock(kinds_.mutex);
  PLEACH_ASSIGN(kind, find_kind({.type = request.type,
                                 .op = request.op,
                                 .count = request.count,
                                 .segment_count = request.segment_count}));
  PLEACH_ASSIGN(buffers, check_buffers(schedule_.collective, kind->needs, request));
  std::optional<OperationPool>& pool = kind->pools[buffers.in_place ? 1 : 0];
  if (!pool) {
    PLEACH_ASSIGN(program, lower(schedule_, order_,
                                 {.rank = preparer_.rank,
                                  .count = request.count,
                                  .segment_count = kind->segment_count,
                                  .in_place = buffers.in_place}));
    program.rename_peers(preparer_.job_ranks);
    pool.emplace(std::move(program));
  }
  return Planned{pool->take(), buffers, kind->fingerprint};
}

const Schedule& schedule_of(const PreparedSchedule& prepared) {
  return prepared.schedule();
}

}  // namespace pleach
