#include "pleach/runtime/prepared_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/collective/program.h"
#include "pleach/collective/verify.h"
#include "pleach/runtime/kernels.h"
#include "pleach/runtime/request_fingerprint.h"

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
  moves_directly_ =
      schedule_.collective == CollectiveKind::kAllToAll && pleach::moves_directly(schedule_);
}

std::strong_ordering PreparedSchedule::Key::operator<=>(const Key& other) const {
  const auto simple = [](const Key& key) {
    return std::tie(key.type, key.wire, key.op, key.count, key.segment_count);
  };
  const auto compare = [](std::span<const int64_t> left, std::span<const int64_t> right) {
    return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(),
                                                  right.end());
  };
  if (const auto order = simple(*this) <=> simple(other); order != 0) {
    return order;
  }
  const auto order = compare(counts, other.counts);
  return order != 0 ? order : compare(receive_counts, other.receive_counts);
}

bool PreparedSchedule::Key::operator==(const Key& other) const {
  return count == other.count && type == other.type && wire == other.wire && op == other.op &&
         segment_count == other.segment_count && std::ranges::equal(counts, other.counts) &&
         std::ranges::equal(receive_counts, other.receive_counts);
}

Result<std::shared_ptr<const PreparedSchedule>> PreparedSchedule::prove(Schedule schedule,
                                                                        const Preparer& preparer) {
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

// Whether the counts are those of several pieces.
bool PreparedSchedule::has_pieces(const Key& key) const {
  const CollectiveKind collective = schedule_.collective;
  const auto n = at(schedule_.rank_count());
  return (gives_shards(collective) || ends_with_shards(collective)) && key.counts.size() > n &&
         key.counts.size() % n == 0 && key.receive_counts.empty();
}

// Into transfers that fit a place, as many as the segments asked for if such ones do.
Result<std::unique_ptr<const PreparedSchedule::Pieced>> PreparedSchedule::cut_pieces(
    const Key& key) const {
  const std::size_t n = at(schedule_.rank_count());
  std::vector<__int128> parts(n, 0);
  for (std::size_t index = 0; index < key.counts.size(); ++index) {
    parts[index % n] += key.counts[index];
  }
  const int32_t segments = std::max(1, key.segment_count);
  const __int128 share = (std::ranges::max(parts) + segments - 1) / segments;
  const int64_t place = preparer_.place_bytes / element_bytes(key.wire);
  if (place < 1) {
    return Error{ErrorCode::kUnsupported, fmt::format("landing places of {} bytes hold no {}",
                                                      preparer_.place_bytes, to_text(key.wire))};
  }
  const auto most = static_cast<int64_t>(std::clamp<__int128>(share, 1, place));
  PLEACH_ASSIGN(cut, cut_into_pieces(schedule_, key.counts, most));
  Order order = Order::build(cut.schedule);
  return std::make_unique<const Pieced>(Pieced{std::move(cut), std::move(order)});
}

// What the ranks' parts count, as far as this rank knows; empty: they are equal.
Result<std::vector<int64_t>> PreparedSchedule::part_counts(const Key& key) const {
  const auto n = at(schedule_.rank_count());
  const std::size_t own = preparer_.rank.index();
  const bool is_exchange = schedule_.collective == CollectiveKind::kAllToAll;
  if ((key.counts.empty() && key.receive_counts.empty()) || has_pieces(key)) {
    return std::vector<int64_t>();
  }
  if (key.counts.size() != n || key.receive_counts.size() != (is_exchange ? n : 0)) {
    return invalid(fmt::format("{} counts, and {} to receive, are not what {} on {} ranks takes",
                               key.counts.size(), key.receive_counts.size(),
                               to_text(schedule_.collective), n));
  }
  if (!is_exchange) {
    return std::vector<int64_t>(key.counts.begin(), key.counts.end());
  }
  if (!moves_directly_) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format(
            "counts of each pair need a schedule that sends every block straight "
            "from its source to its target; {} does not",
            schedule_.provenance.algorithm.empty() ? "this one" : schedule_.provenance.algorithm)};
  }
  if (key.counts[own] != key.receive_counts[own]) {
    return invalid(fmt::format("{} elements are sent to the rank itself, which expects {}",
                               key.counts[own], key.receive_counts[own]));
  }
  std::vector<int64_t> blocks(n * n, 0);
  for (std::size_t peer = 0; peer < n; ++peer) {
    blocks[own * n + peer] = key.counts[peer];
    blocks[peer * n + own] = key.receive_counts[peer];
  }
  return blocks;
}

Result<Placement> PreparedSchedule::place(const Key& key, const Kind& kind) const {
  // All ranks' buffers together must be countable in bytes.
  const int64_t most = INT64_MAX / element_bytes(key.wire) / schedule_.rank_count();
  if (key.count > most) {
    return invalid(fmt::format("{} elements are too many", key.count));
  }
  if (kind.pieced == nullptr && kind.part_counts.empty()) {
    return Placement::create(schedule_, key.count);
  }
  PLEACH_ASSIGN(placement, kind.pieced != nullptr
                               ? Result<Placement>(Placement::create(kind.pieced->cut))
                               : Placement::create(schedule_, kind.part_counts));
  const int64_t parts = part_count(schedule_.collective, schedule_.rank_count());
  if (const int64_t total = placement.part_begin(parts); total > most) {
    return invalid(fmt::format("{} elements are too many", total));
  }
  return placement;
}

// No message has more elements, whatever the rounding.
int64_t PreparedSchedule::longest_message(const Key& key, const Placement& placement) const {
  const int64_t parts = part_count(schedule_.collective, schedule_.rank_count());
  const auto share = [&](__int128 elements, int64_t weight) {
    return static_cast<int64_t>((elements * most_weight_ + weight - 1) / weight);
  };
  const int64_t total = schedule_.chunks.total();
  if (key.counts.empty()) {
    const bool is_exchange = schedule_.collective == CollectiveKind::kAllToAll;
    return share(static_cast<__int128>(key.count) * (is_exchange ? schedule_.rank_count() : 1),
                 total);
  }
  if (schedule_.symmetry) {  // each message lies in a part, which may be any
    return share(std::ranges::max(key.counts), total / parts);
  }
  int64_t longest = 0;
  for (const Transfer& transfer : schedule_.transfers) {
    longest = std::max(longest, placement.begin(transfer.first_chunk + transfer.chunk_count) -
                                    placement.begin(transfer.first_chunk));
  }
  return longest;
}

// As many segments of messages of so many elements as it takes, besides those asked for, until each
// fits a place.
Result<int32_t> PreparedSchedule::segments(const Key& key, int64_t elements) const {
  const int64_t place = preparer_.place_bytes / element_bytes(key.wire);
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

// The same segments on all ranks, or of each block on the two that know it.
Status PreparedSchedule::cut(const Key& key, const Placement& placement, Kind& kind) const {
  if (key.segment_count < 1 || key.segment_count > kMostSegments) {
    return invalid(fmt::format("{} segments are not in [1, {}]", key.segment_count, kMostSegments));
  }
  kind.segment_count = kind.pieced != nullptr ? 1 : key.segment_count;
  if (kind.pieced != nullptr) {
    return ok();
  }
  if (key.receive_counts.empty()) {
    PLEACH_SET(kind.segment_count, segments(key, longest_message(key, placement)));
    return ok();
  }
  kind.part_segments.assign(kind.part_counts.size(), key.segment_count);
  for (std::size_t part = 0; part < kind.part_counts.size(); ++part) {
    const bool travels = part % (at(schedule_.rank_count()) + 1) != 0;
    if (travels) {
      PLEACH_SET(kind.part_segments[part], segments(key, kind.part_counts[part]));
    }
  }
  return ok();
}

uint64_t PreparedSchedule::fingerprint(const Key& key, const Kind& kind) const {
  RequestTraits traits{.collective = schedule_.collective,
                       .type = key.type,
                       .is_wide = key.wire != key.type,
                       .op = key.op,
                       .count = key.count,
                       .segment_count = kind.segment_count,
                       .schedule_hash = hash_,
                       .root = schedule_.root};
  if (!key.counts.empty()) {
    Fingerprint parts;
    parts.add(hash_);
    traits.count = 0;
    if (key.receive_counts.empty()) {  // else the run compares those of each pair
      for (const int64_t count : key.counts) {
        parts.add(count);
        traits.count += count;
      }
    }
    traits.schedule_hash = parts.value();
  }
  return request_fingerprint(traits);
}

Result<PreparedSchedule::Kind> PreparedSchedule::make_kind(const Key& key) const {
  Kind kind;
  PLEACH_TRY(check_reduction(key.type, key.op));
  PLEACH_TRY(check_wire(schedule_.collective, key.type, key.wire));
  PLEACH_SET(kind.part_counts, part_counts(key));
  if (has_pieces(key)) {
    PLEACH_SET(kind.pieced, cut_pieces(key));
  }
  const Pieced* const pieced = kind.pieced.get();
  const Schedule& schedule = pieced != nullptr ? pieced->cut.schedule : schedule_;
  PLEACH_ASSIGN(placement, place(key, kind));
  kind.needs = buffer_needs(schedule, placement, preparer_.rank, key.type);
  kind.reduced = reduced_parts(schedule, placement, preparer_.rank);
  PLEACH_TRY(cut(key, placement, kind));
  kind.fingerprint = fingerprint(key, kind);
  kind.counts.assign(key.counts.begin(), key.counts.end());
  kind.counts.insert(kind.counts.end(), key.receive_counts.begin(), key.receive_counts.end());
  return kind;
}

bool PreparedSchedule::Kind::is_in_use() const {
  return std::ranges::any_of(pools, [](const auto& pool) { return pool && pool->is_in_use(); });
}

// The kind that was asked for longest ago, of those that no operation is of.
void PreparedSchedule::forget_oldest() const {
  auto oldest = kinds_.all.end();
  for (auto kind = kinds_.all.begin(); kind != kinds_.all.end(); ++kind) {
    const bool is_older =
        oldest == kinds_.all.end() || kind->second.last_use < oldest->second.last_use;
    if (is_older && !kind->second.is_in_use()) {
      oldest = kind;
    }
  }
  if (oldest != kinds_.all.end()) {
    kinds_.last = kinds_.last == &*oldest ? nullptr : kinds_.last;
    kinds_.all.erase(oldest);
  }
}

Result<PreparedSchedule::Kind*> PreparedSchedule::find_kind(const Key& key) const {
  if (kinds_.last == nullptr || kinds_.last->first != key) {
    auto found = kinds_.all.find(key);
    if (found == kinds_.all.end()) {
      PLEACH_ASSIGN(kind, make_kind(key));
      if (kinds_.all.size() >= kMostKinds) {
        forget_oldest();
      }
      Key kept = key;  // with counts that stay
      kept.counts = std::span(kind.counts).first(key.counts.size());
      kept.receive_counts = std::span(kind.counts).subspan(key.counts.size());
      found = kinds_.all.emplace(kept, std::move(kind)).first;
    }
    kinds_.last = &*found;
  }
  Kind& kind = kinds_.last->second;
  kind.last_use = ++kinds_.use_count;
  return &kind;
}

// In place what arrives from a rank takes the room of what goes there.
Status PreparedSchedule::check_in_place(const Kind& kind) const {
  if (kind.part_segments.empty()) {
    return ok();
  }
  const auto n = at(schedule_.rank_count());
  for (std::size_t peer = 0; peer < n; ++peer) {
    if (kind.counts[peer] != kind.counts[n + peer]) {
      return invalid(
          fmt::format("in place it must send to rank {} as much as it receives from "
                      "there: {} and {} elements",
                      preparer_.job_ranks[peer].value, kind.counts[peer], kind.counts[n + peer]));
    }
  }
  return ok();
}

// The states that run a kind; lowered when they are asked for first.
Result<OperationPool*> PreparedSchedule::find_pool(Kind& kind, int64_t count, bool in_place) const {
  std::optional<OperationPool>& pool = kind.pools[in_place ? 1 : 0];
  if (!pool) {
    if (in_place) {
      PLEACH_TRY(check_in_place(kind));
    }
    const ProgramOptions options = {.rank = preparer_.rank,
                                    .count = count,
                                    .segment_count = kind.segment_count,
                                    .part_counts = kind.part_counts,
                                    .part_segments = kind.part_segments,
                                    .in_place = in_place};
    PLEACH_ASSIGN(program, kind.pieced != nullptr
                               ? lower(kind.pieced->cut, kind.pieced->order, options)
                               : lower(schedule_, order_, options));
    program.rename_ranks(preparer_.job_ranks);
    pool.emplace(std::move(program));
  }
  return &*pool;
}

// All but the operation's number, its note and its deadline.
void PreparedSchedule::specify(RunSpec& spec, const RunRequest& request, const Kind& kind,
                               const RunBuffers& buffers) const {
  spec.fingerprint = kind.fingerprint;
  spec.type = request.wire.value_or(request.type);
  spec.op = request.op;
  spec.input = buffers.input;
  spec.output = buffers.output;
  spec.record = request.record;
  spec.what = to_text(schedule_.collective);
  spec.rounded = {};
  spec.quotient = {};
  if (request.op == ReduceOp::kAverage) {
    spec.quotient = {buffers.output, buffers.in_place ? kind.reduced.in_whole : kind.reduced.apart,
                     schedule_.rank_count()};
  }
}

// What is reduced has the whole for its input on every rank: a copy of that, in float32, is run in
// place, and what the rank holds of the result is rounded.
void PreparedSchedule::run_wide(CollectiveState& state, ElementType type, const Kind& kind) const {
  RunSpec& spec = state.spec;
  const int64_t count = kind.needs.input / kind.needs.element;
  if (state.wide == nullptr) {
    state.wide = std::make_unique_for_overwrite<float[]>(at(count));
  }
  float* const whole = state.wide.get();
  widen(type, whole, spec.input, count);
  const bool in_place = spec.input == spec.output;  // check_buffers() made them so
  spec.rounded = {type, spec.output, whole, kind.reduced.in_whole, !in_place};
  auto* const bytes = reinterpret_cast<std::byte*>(whole);
  spec.input = bytes;
  spec.output = bytes;
  if (spec.op == ReduceOp::kAverage) {
    spec.quotient = {bytes, kind.reduced.in_whole, schedule_.rank_count()};
  }
}

Result<std::shared_ptr<CollectiveState>> PreparedSchedule::plan(const RunRequest& request) const {
  const Key key{.type = request.type,
                .wire = request.wire.value_or(request.type),
                .op = request.op,
                .count = request.counts.empty() ? request.count : 0,
                .segment_count = request.segment_count,
                .counts = request.counts,
                .receive_counts = request.receive_counts};
  const bool is_wide = key.wire != key.type;
  std::shared_ptr<CollectiveState> state;
  const Kind* kind = nullptr;  // stays while the state is in use
  {
    const std::scoped_lock lock(kinds_.mutex);
    PLEACH_ASSIGN(found, find_kind(key));
    PLEACH_ASSIGN(buffers, check_buffers(schedule_.collective, found->needs, request));
    PLEACH_ASSIGN(pool, find_pool(*found, request.count, buffers.in_place || is_wide));
    state = pool->take();
    specify(state->spec, request, *found, buffers);
    kind = found;
  }
  if (is_wide) {
    run_wide(*state, key.type, *kind);
  }
  return state;
}

const Schedule& schedule_of(const PreparedSchedule& prepared) {
  return prepared.schedule();
}

}  // namespace pleach
