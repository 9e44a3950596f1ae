#include "pleach/collective/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/borrowing.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/symmetry.h"

namespace pleach {
namespace {

// The most elements that any segment of a chunk has.
int64_t longest_segment(int64_t length, int32_t segment_count) {
  return (length + segment_count - 1) / segment_count;
}

// How one translate of a template stream looks from the rank.
struct Seen {
  int32_t stream = 0;
  int32_t end = 0;  // position of the rank among the stream's sources or targets
  int32_t peer = 0;
  int32_t translate = 0;
};

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Order& order, const Placement& placement,
           const ProgramOptions& options)
      : schedule_(schedule), order_(order), placement_(placement), options_(options) {
    if (schedule.symmetry) {
      translation_.emplace(schedule.symmetry->dimensions);
    }
    slot_of_.assign(at(schedule.chunks.count()), -1);
  }

  Result<Program> run() {
    program_.rank = options_.rank;
    program_.period = schedule_.period;
    program_.segment_count = options_.part_segments.empty()
                                 ? options_.segment_count
                                 : *std::ranges::max_element(options_.part_segments);
    list_exchanges();
    std::vector<Seen> sends, receives;
    find_streams(sends, receives);
    PLEACH_TRY(check_size(sends, receives));
    mark_slots(sends, receives);
    number_slots();
    may_borrow_ = find_borrowable(order_);
    for (const Seen& seen : sends) {
      add_send(seen);
    }
    for (const Seen& seen : receives) {
      add_receive(seen);
    }
    if (schedule_.fold_order == FoldOrder::kByRank) {
      place_own_values();
    }
    for (ProgramSlot& slot : program_.slots) {
      PLEACH_TRY(place(slot));
    }
    for (ProgramMessage& send : program_.sends) {
      const std::span reads =
          std::span(program_.reads).subspan(at(send.first_item), at(send.item_count));
      send.may_borrow |= std::ranges::all_of(
          reads, [&](const ProgramRead& read) { return program_.is_constant(read); });
    }
    return std::move(program_);
  }

 private:
  // What the order's tables and this rank's messages say about the time a slot is in use.
  struct Use {
    int32_t first_arrival = INT32_MAX;
    int32_t last_event = 0;
    bool read_first = false;  // something is read before anything has arrived
    bool reduce_first = false;
  };

  int32_t translate_count() const { return translation_ ? translation_->order() : 1; }

  void find_streams(std::vector<Seen>& sends, std::vector<Seen>& receives) const {
    const int32_t rank = options_.rank.value;
    for (int32_t stream = 0; stream < order_.stream_count(); ++stream) {
      const int32_t source = order_.sources(stream).front();
      const int32_t target = order_.targets(stream).front();
      if (translation_) {
        const int32_t as_source = translation_->subtract(rank, source);
        const int32_t as_target = translation_->subtract(rank, target);
        sends.push_back({stream, 0, translation_->add(target, as_source), as_source});
        receives.push_back({stream, 0, translation_->add(source, as_target), as_target});
      } else if (source == rank) {
        sends.push_back({stream, 0, target, 0});
      } else if (target == rank) {
        receives.push_back({stream, 0, source, 0});
      }
    }
    const auto before = [this](const Seen& left, const Seen& right) {
      return key(left) < key(right);
    };
    std::sort(sends.begin(), sends.end(), before);
    std::sort(receives.begin(), receives.end(), before);
  }

  std::tuple<int32_t, int32_t, int32_t> key(const Seen& seen) const {
    const Stream& stream = order_.stream(seen.stream);
    return {seen.peer, stream.step, moved(stream.first_chunk, seen.translate)};
  }

  int32_t moved(int32_t chunk, int32_t translate) const {
    return translation_ ? translate_chunk(schedule_, *translation_, chunk, translate) : chunk;
  }

  // Errors: kInvalidArgument when the tables would be absurdly large.
  Status check_size(const std::vector<Seen>& sends, const std::vector<Seen>& receives) const {
    int64_t events = schedule_.chunks.count();
    for (const auto* list : {&sends, &receives}) {
      for (const Seen& seen : *list) {
        events += order_.stream(seen.stream).chunk_count;
      }
    }
    if (events > kMaxProgramEvents / program_.segment_count) {
      return invalid(fmt::format("{} segments of {} chunk events on rank {} are too many",
                                 program_.segment_count, events, options_.rank.value));
    }
    if (int64_t{order_.stream_count()} * translate_count() > INT32_MAX) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{} streams on each of {} ranks are too many to number",
                               order_.stream_count(), translate_count())};
    }
    return ok();
  }

  template <typename Visit>
  void for_each_chunk(const Seen& seen, Visit visit) const {
    const Stream& stream = order_.stream(seen.stream);
    for (int32_t k = 0; k < stream.chunk_count; ++k) {
      visit(k, moved(stream.first_chunk + k, seen.translate));
    }
  }

  // Finds the chunks that have a slot here: those of a message and those the result holds.
  void mark_slots(const std::vector<Seen>& sends, const std::vector<Seen>& receives) {
    for (const auto* list : {&sends, &receives}) {
      for (const Seen& seen : *list) {
        for_each_chunk(seen, [this](int32_t, int32_t chunk) { slot_of_[at(chunk)] = 0; });
      }
    }
    for (int32_t chunk = 0; chunk < schedule_.chunks.count(); ++chunk) {
      if (slot_of_[at(chunk)] < 0 && has_output(schedule_, options_.rank, chunk)) {
        slot_of_[at(chunk)] = 0;
      }
    }
  }

  void number_slots() {
    for (int32_t chunk = 0; chunk < schedule_.chunks.count(); ++chunk) {
      if (slot_of_[at(chunk)] >= 0) {
        slot_of_[at(chunk)] = count_of(program_.slots);
        program_.slots.push_back({.chunk = chunk,
                                  .length = placement_.length(chunk),
                                  .segment_count = segments_of(chunk)});
      }
    }
    uses_.resize(program_.slots.size());
  }

  int32_t segments_of(int32_t chunk) const {
    return options_.part_segments.empty() ? options_.segment_count
                                          : options_.part_segments[at(placement_.part_of(chunk))];
  }

  void list_exchanges() {
    const int64_t n = schedule_.rank_count();
    const int64_t own = options_.rank.value;
    if (schedule_.collective != CollectiveKind::kAllToAll || options_.part_counts.empty()) {
      return;
    }
    for (int32_t peer = 0; peer < n; ++peer) {
      if (peer != own) {
        program_.exchanges.push_back({Rank{peer}, options_.part_counts[at(own * n + peer)],
                                      options_.part_counts[at(peer * n + own)]});
      }
    }
  }

  ProgramMessage message(const Seen& seen) const {
    const Stream& stream = order_.stream(seen.stream);
    return {.stream = seen.stream * translate_count() + seen.translate,
            .peer = Rank{seen.peer},
            .step = stream.step,
            .first_chunk = moved(stream.first_chunk, seen.translate),
            .op = stream.op,
            .item_count = stream.chunk_count,
            .segment_count = segments_of(moved(stream.first_chunk, seen.translate)),
            .translate = seen.translate};
  }

  void add_send(const Seen& seen) {
    ProgramMessage send = message(seen);
    send.first_item = count_of(program_.reads);
    send.may_borrow = may_borrow_[at(seen.stream)];
    for_each_chunk(seen, [&](int32_t k, int32_t chunk) {
      const int32_t item = order_.first_read(seen.stream) + k;
      const int32_t slot = slot_of_[at(chunk)];
      const int32_t after_commits = order_.read(item).after_commits;
      program_.reads.push_back({slot, after_commits, item});
      ++program_.slots[at(slot)].read_count;
      Use& use = uses_[at(slot)];
      use.last_event = std::max(use.last_event, send.step);
      use.read_first |= after_commits == 0;
    });
    program_.sends.push_back(send);
  }

  void add_receive(const Seen& seen) {
    ProgramMessage receive = message(seen);
    receive.first_item = count_of(program_.commits);
    for_each_chunk(seen, [&](int32_t k, int32_t chunk) {
      const int32_t item = order_.first_commit(seen.stream) + k;
      const int32_t slot = slot_of_[at(chunk)];
      const Commit& commit = order_.commit(item);
      program_.commits.push_back(
          {slot, commit.after_commits, commit.after_reads, receive.step, item});
      ++program_.slots[at(slot)].commit_count;
      Use& use = uses_[at(slot)];
      use.first_arrival = std::min(use.first_arrival, receive.step);
      use.last_event = std::max(use.last_event, receive.step);
      use.reduce_first |= commit.after_commits == 0 && receive.op == TransferOp::kReduce;
    });
    program_.receives.push_back(receive);
  }

  void place_own_values() {
    const auto for_each_fold = [this](auto visit) {
      for (const ProgramMessage& receive : program_.receives) {
        for (int32_t item = 0; receive.op == TransferOp::kReduce && item < receive.item_count;
             ++item) {
          visit(receive, program_.commits[at(receive.first_item + item)]);
        }
      }
    };
    std::map<std::pair<int32_t, int32_t>, int32_t> smaller;  // by slot and step
    for_each_fold([&](const ProgramMessage& receive, const ProgramCommit& commit) {
      smaller[{commit.slot, commit.step}] += receive.peer.value < options_.rank.value ? 1 : 0;
    });
    for_each_fold([&](const ProgramMessage& /*receive*/, ProgramCommit& commit) {
      commit.before_own = smaller[{commit.slot, commit.step}];
    });
  }

  // Where the rank's shard begins in the whole that an in-place call passes.
  int64_t shard_origin(int32_t chunk, int64_t offset) const {
    return options_.in_place ? placement_.begin(chunk) - offset : 0;
  }

  Location input_location(int32_t chunk) const {
    const std::optional<Interval> input = placement_.input(options_.rank, chunk);
    if (!input) {
      return {};
    }
    const bool is_shard = gives_shards(schedule_.collective);
    const int64_t origin = is_shard ? shard_origin(chunk, input->begin) : 0;
    return {options_.in_place ? Buffer::kOutput : Buffer::kInput, input->begin + origin};
  }

  Location output_location(int32_t chunk) const {
    const std::optional<Interval> output = placement_.output(options_.rank, chunk);
    if (!output) {
      return {};
    }
    const bool is_shard = ends_with_shards(schedule_.collective);
    return {Buffer::kOutput, output->begin + (is_shard ? shard_origin(chunk, output->begin) : 0)};
  }

  // Decides where the slot's value lies.
  Status place(ProgramSlot& slot) {
    const Use& use = uses_[at(slot_of_[at(slot.chunk)])];
    slot.initial = input_location(slot.chunk);
    const Location output = output_location(slot.chunk);
    if (slot.initial.buffer == Buffer::kNone &&
        (use.read_first || use.reduce_first || slot.commit_count == 0)) {
      return invalid(
          fmt::format("rank {} uses chunk {} before it has a value: the schedule is wrong",
                      options_.rank.value, slot.chunk));
    }
    if (slot.commit_count == 0) {
      const bool is_there =
          slot.initial.buffer == output.buffer && slot.initial.offset == output.offset;
      slot.result = is_there ? Location{} : output;
      return ok();
    }
    // An in-place all_to_all's arrivals would land on blocks that have yet to leave.
    const bool aliases = options_.in_place && schedule_.collective == CollectiveKind::kAllToAll;
    if (output.buffer == Buffer::kOutput && !aliases) {
      slot.home = output;
      return ok();
    }
    slot.result = output;
    slot.home = {Buffer::kScratch, program_.scratch_elements};
    const int32_t held = segments_held(use, slot.segment_count);
    if (held == slot.segment_count || slot.result.buffer != Buffer::kNone) {
      program_.scratch_elements += slot.length;
      return ok();
    }
    slot.scratch_segments = held;
    slot.scratch_stride = longest_segment(slot.length, slot.segment_count);
    program_.scratch_elements += slot.scratch_stride * held;
    return ok();
  }

  // The fewest segments of scratch that cannot stop the schedule: D·period ≥ last event − first
  // arrival.
  int32_t segments_held(const Use& use, int32_t segment_count) const {
    const int32_t span = use.last_event - use.first_arrival;
    const int32_t held = std::max(1, (span + schedule_.period - 1) / schedule_.period);
    return std::min(held, segment_count);
  }

  const Schedule& schedule_;
  const Order& order_;
  const Placement& placement_;
  const ProgramOptions& options_;
  std::vector<bool> may_borrow_;  // by stream
  std::optional<Translation> translation_;
  Program program_;
  std::vector<int32_t> slot_of_;  // by chunk; -1: none
  std::vector<Use> uses_;         // by slot
};

Status check_lowering(const Schedule& schedule, const ProgramOptions& options) {
  if (options.rank.value < 0 || options.rank.value >= schedule.rank_count()) {
    return invalid(fmt::format("rank {} is not one of the schedule's {} ranks", options.rank.value,
                               schedule.rank_count()));
  }
  if (options.segment_count < 1 || options.segment_count > kMaxProgramEvents) {
    return invalid(fmt::format("{} segments are out of range", options.segment_count));
  }
  return check_switchless(schedule);
}

}  // namespace

void Program::rename_ranks(std::span<const Rank> names) {
  rank = names[rank.index()];
  for (Exchange& exchange : exchanges) {
    exchange.peer = names[exchange.peer.index()];
  }
  std::ranges::sort(exchanges, {}, &Exchange::peer);
  for (std::vector<ProgramMessage>* const messages : {&sends, &receives}) {
    for (ProgramMessage& message : *messages) {
      message.peer = names[message.peer.index()];
    }
    std::ranges::stable_sort(*messages, {}, &ProgramMessage::peer);
  }
}

Program::Exchange Program::exchange(Rank peer) const {
  const auto found = std::ranges::lower_bound(exchanges, peer, {}, &Exchange::peer);
  return found != exchanges.end() && found->peer == peer ? *found : Exchange{peer};
}

int64_t Program::home_offset(const ProgramSlot& slot, int32_t segment) const {
  if (slot.scratch_segments > 0) {
    return slot.home.offset + slot.scratch_stride * (segment % slot.scratch_segments);
  }
  return slot.home.offset + this->segment(slot, segment).begin;
}

Status check_switchless(const Schedule& schedule) {
  const RankOfNode rank_of(schedule.participants);
  const auto ends_at_ranks = [&](const Transfer& transfer) {
    return rank_of(transfer.source) >= 0 && rank_of(transfer.target) >= 0;
  };
  if (std::ranges::all_of(schedule.transfers, ends_at_ranks)) {
    return ok();
  }
  const Order order = Order::build(schedule);
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    if (order.sources(stream).size() == 1 && order.targets(stream).size() == 1) {
      continue;
    }
    std::unordered_map<int32_t, int32_t> arrivals, departures;  // by node
    for (const int32_t index : order.transfers(stream)) {
      const Transfer& transfer = schedule.transfers[at(index)];
      const bool reduces = ++arrivals[transfer.target.value] > 1;
      const bool multicasts = ++departures[transfer.source.value] > 1;
      if (reduces || multicasts) {
        return Error{ErrorCode::kUnsupported,
                     fmt::format("the schedule needs a switch that {}: node {}, step {}, chunk {}",
                                 reduces ? "reduces" : "multicasts",
                                 reduces ? transfer.target.value : transfer.source.value,
                                 transfer.step, transfer.first_chunk)};
      }
    }
  }
  return ok();
}

bool moves_directly(const Schedule& schedule) {
  const RankOfNode rank_of(schedule.participants);
  return std::ranges::all_of(schedule.transfers, [&](const Transfer& transfer) {
    bool is_direct = true;
    for (int32_t k = 0; k < transfer.chunk_count; ++k) {
      const int32_t chunk = transfer.first_chunk + k;
      is_direct = is_direct && chunk_source(schedule, chunk) == Rank{rank_of(transfer.source)} &&
                  chunk_destination(schedule, chunk) == Rank{rank_of(transfer.target)};
    }
    return is_direct;
  });
}

Result<Program> lower(const Schedule& schedule, const Order& order, const ProgramOptions& options) {
  PLEACH_TRY(check_lowering(schedule, options));
  PLEACH_ASSIGN(placement, options.part_counts.empty()
                               ? Placement::create(schedule, options.count)
                               : Placement::create(schedule, options.part_counts));
  return Lowering(schedule, order, placement, options).run();
}

Result<Program> lower(const PiecedSchedule& pieced, const Order& order,
                      const ProgramOptions& options) {
  PLEACH_TRY(check_lowering(pieced.schedule, options));
  return Lowering(pieced.schedule, order, Placement::create(pieced), options).run();
}

}  // namespace pleach
