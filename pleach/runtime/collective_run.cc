#include "pleach/runtime/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/kernels.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/program_index.h"
#include "pleach/runtime/request_fingerprint.h"
#include "pleach/runtime/streaming.h"

namespace pleach {
namespace {

bool has_segment(std::span<const ProgramMessage> messages, int32_t message, int32_t segment) {
  return message >= 0 && segment >= 0 && segment < messages[at(message)].segment_count;
}

// What is fetched for one fold, of all its operands, stays in a level-2 cache.
constexpr int64_t kFetchedBytes = int64_t{512} * 1024;
// Smaller values are copied for each of their readers: that they are read is told to each of them.
constexpr int64_t kLeastCopied = int64_t{8} * 1024;

void copy(std::byte* out, const std::byte* in, int64_t bytes) {
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

}  // namespace

CollectiveRun::CollectiveRun(const ProgramIndex& index)
    : index_(index),
      program_(index.program()),
      segments_(program_.segment_count),
      is_alike_(program_.exchanges.empty()),
      blocked_first_(program_.sends.size() * at(segments_)) {
  int32_t most_commits = 0;
  for (const ProgramSlot& slot : program_.slots) {
    most_commits = std::max(most_commits, slot.commit_count);
    home_elements_ += slot.home.buffer == Buffer::kOutput ? slot.length : 0;
    commit_total_ += int64_t{slot.commit_count} * slot.segment_count;
  }
  for (int32_t send = 0; send < count_of(program_.sends); ++send) {
    const ProgramMessage& message = program_.sends[at(send)];
    segment_total_ += message.segment_count;
    const auto reads =
        std::span(program_.reads).subspan(at(message.first_item), at(message.item_count));
    const auto blocked = static_cast<int32_t>(std::ranges::count_if(
        reads, [](const ProgramRead& read) { return read.after_commits > 0; }));
    std::fill_n(&blocked_first_[this->index(send, 0)], message.segment_count, blocked);
  }
  blocked_reads_ = blocked_first_;
  operands_.reserve(at(most_commits) + 1);
  outgoing_.reserve(index.targets().size());
  for (std::size_t target = 0; target < index.targets().size(); ++target) {
    outgoing_.emplace_back(index.order(target).size());
  }
  lay_out();
}

// Finds a place in one block for each array.
void CollectiveRun::lay_out() {
  std::size_t size = 0;
  const auto for_each_array = [&](auto&& visit) {
    const std::size_t segments = at(segments_);
    visit(counts_, program_.slots.size() * segments);
    visit(payload_, program_.commits.size() * segments);
    visit(arrivals_, program_.receives.size() * segments);
    visit(is_read_, program_.reads.size() * segments);
    visit(has_begun_, index_.peers().size());
    visit(is_told_, index_.peers().size());
    for (std::size_t target = 0; target < outgoing_.size(); ++target) {
      visit(outgoing_[target].segments, index_.order(target).size());
    }
  };
  // Each begins where any type may.
  const auto take = [&]<typename T>(std::span<T>& /*array*/, std::size_t count) {
    constexpr std::size_t kAlignment = alignof(std::max_align_t);
    return std::exchange(size,
                         size + (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment);
  };
  for_each_array(take);
  block_ = {std::make_unique<std::byte[]>(size), size};
  size = 0;
  for_each_array([&]<typename T>(std::span<T>& array, std::size_t count) {
    std::byte* const begin = block_.bytes.get() + take(array, count);
    array = {reinterpret_cast<T*>(begin), count};
    std::uninitialized_value_construct(array.begin(), array.end());
  });
}

void CollectiveRun::reset() {
  std::memset(block_.bytes.get(), 0, block_.size);
  for (Outgoing& outgoing : outgoing_) {
    if (!outgoing.ready.empty()) {
      outgoing.ready.clear();
    }
    outgoing.smallest = 0;
  }
  touched_.clear();
  unsent_ = segment_total_;
  uncommitted_ = commit_total_;
  culprit_ = {};
}

// Takes what is left of a run out of the lanes.
void CollectiveRun::leave() {
  for (std::size_t target = 0; target < outgoing_.size() && !lanes_.empty(); ++target) {
    std::erase(lanes_[index_.targets()[target].index()].runs, &outgoing_[target]);
  }
  lanes_ = {};
  if (outbox_ != nullptr) {
    outbox_->drop(this);
  }
  if (blocks_ != nullptr) {
    blocks_->give_back(std::exchange(scratch_, {}));
    blocks_ = nullptr;
  }
}

Status CollectiveRun::start(const RunSpec& spec, const RunWorld& world, TimePoint now) {
  leave();
  spec_ = &spec;
  transport_ = &world.transport;
  channel_ = &world.channel;
  lanes_ = world.lanes;
  sending_ = &world.sending;
  outbox_ = world.outbox;
  blocks_ = &world.scratch;
  element_bytes_ = element_bytes(spec.type);
  is_large_ = home_elements_ * element_bytes_ >= least_streamed();
  scratch_ = blocks_->take(program_.scratch_elements * element_bytes_);
  reset();
  life_ = {.start = now, .last_event = now, .moved_bytes = transport_->moved_bytes()};
  return begin();
}

const std::byte* CollectiveRun::address(const Location& location, int64_t offset) const {
  const int64_t bytes = offset * element_bytes_;
  switch (location.buffer) {
    case Buffer::kInput:
      return spec_->input + bytes;
    case Buffer::kOutput:
      return spec_->output + bytes;
    case Buffer::kScratch:
      return scratch_.bytes.get() + bytes;
    case Buffer::kNone:
      break;
  }
  PLEACH_CHECK(false, "a location that is used has a buffer");
  return nullptr;
}

std::byte* CollectiveRun::home(const ProgramSlot& slot, int32_t segment) const {
  std::byte* const base =
      slot.home.buffer == Buffer::kScratch ? scratch_.bytes.get() : spec_->output;
  return base + program_.home_offset(slot, segment) * element_bytes_;
}

const std::byte* CollectiveRun::value(const ProgramSlot& slot, int32_t segment,
                                      bool is_initial) const {
  return is_initial
             ? address(slot.initial, slot.initial.offset + program_.segment(slot, segment).begin)
             : home(slot, segment);
}

Status CollectiveRun::begin() {
  for (const Rank peer : index_.peers()) {
    PLEACH_TRY(transport_->connect(peer));
  }
  for (std::size_t target = 0; target < outgoing_.size(); ++target) {
    lanes_[index_.targets()[target].index()].runs.push_back(&outgoing_[target]);
  }
  std::copy(blocked_first_.begin(), blocked_first_.end(), blocked_reads_.begin());
  for (int32_t send = 0; send < count_of(program_.sends); ++send) {
    for (int32_t segment = 0; segment < program_.sends[at(send)].segment_count; ++segment) {
      if (blocked_reads_[index(send, segment)] == 0) {
        make_ready(send, segment);
      }
    }
  }
  return ok();
}

Status CollectiveRun::proceed(TimePoint now) {
  if (life_.has_news) {
    life_.has_news = false;
    life_.last_event = now;
    life_.moved_bytes = transport_->moved_bytes();
  }
  do {
    PLEACH_TRY(advance_touched());
    for (std::size_t connection = 0; connection < outgoing_.size(); ++connection) {
      PLEACH_TRY(serve(connection));
    }
  } while (!touched_.empty());  // what has left at once may let other segments go on
  if (is_done()) {
    finish();
    leave();
    return ok();
  }
  return check_expiry(now);
}

Status CollectiveRun::serve(std::size_t connection) {
  Outgoing& outgoing = outgoing_[connection];
  Lane& lane = lanes_[index_.targets()[connection].index()];
  while (!outgoing.ready.empty() && lane.free_places > 0 &&
         !(*sending_)[index_.targets()[connection].index()]) {
    const int32_t position = outgoing.ready.front();
    // The last free place is for the smallest segment of the earliest run that the peer has not
    // released, unless that one holds a place already.
    const Outgoing& first = *lane.runs.front();
    const bool is_smallest = &first == &outgoing && position == outgoing.smallest;
    if (!is_smallest && lane.free_places == 1 && !first.segments[at(first.smallest)].is_admitted) {
      return ok();
    }
    outgoing.ready.erase(position);
    PLEACH_TRY(send(connection, position));
  }
  return ok();
}

Status CollectiveRun::send(std::size_t connection, int32_t position) {
  outgoing_[connection].segments[at(position)].is_admitted = true;
  --lanes_[index_.targets()[connection].index()].free_places;
  const auto [send, segment] = index_.order(connection)[at(position)];
  const ProgramMessage& message = program_.sends[at(send)];
  pieces_.clear();
  for (int32_t item = message.first_item; item < message.first_item + message.item_count; ++item) {
    const ProgramRead& read = program_.reads[at(item)];
    const ProgramSlot& slot = program_.slots[at(read.slot)];
    record(RecordEvent::Kind::kStartRead, read.record_item, segment, message.translate);
    const Interval elements = program_.segment(slot, segment);
    const auto bytes = static_cast<std::size_t>((elements.end - elements.begin) * element_bytes_);
    if (bytes == 0) {
      continue;
    }
    const std::byte* const from = value(slot, segment, read.after_commits == 0);
    if (!pieces_.empty() && pieces_.back().data() + pieces_.back().size() == from) {
      pieces_.back() = {pieces_.back().data(), pieces_.back().size() + bytes};
    } else {
      pieces_.emplace_back(from, bytes);
    }
  }
  if (message.may_borrow && pieces_.size() == 1 &&
      std::ssize(pieces_.front()) >= channel_->least_lent) {
    PLEACH_ASSIGN(has_lent, lend(connection, position));
    if (has_lent) {
      return ok();
    }
  }
  PLEACH_ASSIGN(has_left, transport_->send(message.peer, channel_->number,
                                           {spec_->operation, message.stream, segment},
                                           fingerprint_for(message.peer), pieces_));
  if (has_left) {
    finish_send(send, segment);
  } else {
    (*sending_)[message.peer.index()] = true;
  }
  return ok();
}

// Whether the peer is to read the only piece where it stands, or a copy that others read too. What
// is never written, or has been copied, counts as read from here on, for the order; the run is not
// done before the peer is.
Result<bool> CollectiveRun::lend(std::size_t connection, int32_t position) {
  const auto [send, segment] = index_.order(connection)[at(position)];
  const ProgramMessage& message = program_.sends[at(send)];
  const std::span<const std::byte> copied = copy_for_readers(send, segment);
  PLEACH_ASSIGN(
      has_lent,
      transport_->lend(message.peer, channel_->number, {spec_->operation, message.stream, segment},
                       fingerprint_for(message.peer), copied.empty() ? pieces_.front() : copied));
  Outgoing::Segment& what = outgoing_[connection].segments[at(position)];
  what.is_lent = has_lent;
  what.is_copied = has_lent && !copied.empty();
  if (!has_lent && !copied.empty()) {
    outbox_->release(outbox_key(send, segment));
  }
  for (int32_t item = 0; has_lent && item < message.item_count; ++item) {
    if (what.is_copied || program_.is_constant(program_.reads[at(message.first_item + item)])) {
      finish_read(send, item, segment);
    }
  }
  return has_lent;
}

// The copy of what several peers read. Empty: the only piece goes to one, or they read it itself.
std::span<const std::byte> CollectiveRun::copy_for_readers(int32_t send, int32_t segment) const {
  const ProgramMessage& message = program_.sends[at(send)];
  const ProgramRead& read = program_.reads[at(message.first_item)];
  if (outbox_ == nullptr || std::ssize(pieces_.front()) < kLeastCopied || message.item_count > 1 ||
      index_.reads_after(read.slot, read.after_commits).size() < 2 ||
      find_peer_region(pieces_.front()) != nullptr) {
    return {};
  }
  return outbox_->put(outbox_key(send, segment), pieces_.front(), 1 + count_readers(read, segment),
                      transport_->has_far_peers());
}

// Others that the value will be lent to.
int32_t CollectiveRun::count_readers(const ProgramRead& read, int32_t segment) const {
  int32_t count = 0;
  for (const int32_t other : index_.reads_after(read.slot, read.after_commits)) {
    const int32_t send = index_.send_of_read(other);
    const ProgramMessage& message = program_.sends[at(send)];
    const ProgramIndex::Place place = index_.place(send, segment);
    const bool has_left = outgoing_[at(place.target)].segments[at(place.position)].is_admitted;
    count += message.may_borrow && message.item_count == 1 && !has_left ? 1 : 0;
  }
  return count;
}

Outbox::Key CollectiveRun::outbox_key(int32_t send, int32_t segment) const {
  const ProgramRead& read = program_.reads[at(program_.sends[at(send)].first_item)];
  return {this, read.slot, read.after_commits, segment};
}

Status CollectiveRun::tell_begun(Rank peer) {
  is_told_[at(index_.peer_index(peer))] = true;
  return transport_->tell_begun(peer, channel_->number, spec_->operation, fingerprint_for(peer));
}

uint64_t CollectiveRun::with_exchange(int64_t count) const {
  return with_count(spec_->fingerprint, count);
}

// Whether the peer runs what this rank does.
Status CollectiveRun::check_request(const TransportEvent& event) {
  const bool is_peer = index_.peer_index(event.peer) >= 0;
  const uint64_t own = is_peer ? fingerprint(event.peer) : spec_->fingerprint;
  if (event.fingerprint == own) {
    return ok();
  }
  if (is_peer && !program_.exchanges.empty() && differ_in_count(event.fingerprint, own)) {
    return fail(ErrorCode::kInvalidArgument, event.peer,
                fmt::format("rank {} sends {} elements to rank {}, which expects {}",
                            event.peer.value, read_request(event.fingerprint).count,
                            program_.rank.value, program_.exchange(event.peer).received));
  }
  return fail(ErrorCode::kInvalidArgument, std::max(event.peer, program_.rank),
              difference_text(event.peer, event.fingerprint, program_.rank, own));
}

Status CollectiveRun::handle(const TransportEvent& event) {
  const int32_t peer = index_.peer_index(event.peer);
  if (event.kind == TransportEvent::Kind::kLost) {
    return peer < 0 || !needs(event.peer)
               ? ok()
               : Status(fail(ErrorCode::kPeerLost, event.peer,
                             fmt::format("rank {} was lost: {}", event.peer.value, event.reason)));
  }
  const bool says_what =
      event.kind == TransportEvent::Kind::kArrived || event.kind == TransportEvent::Kind::kBegun;
  if (says_what) {
    PLEACH_TRY(check_request(event));
  }
  if (peer < 0) {
    return broken(event);
  }
  life_.has_news = true;
  has_begun_[at(peer)] = has_begun_[at(peer)] || event.kind != TransportEvent::Kind::kSent;
  switch (event.kind) {
    case TransportEvent::Kind::kArrived:
      return handle_arrival(event);
    case TransportEvent::Kind::kSent:
      return handle_sent(event);
    case TransportEvent::Kind::kReleased:
      return handle_release(event);
    case TransportEvent::Kind::kRead:
      return handle_read(event);
    case TransportEvent::Kind::kBegun:
      return is_told_[at(peer)] ? ok() : tell_begun(event.peer);
    case TransportEvent::Kind::kLost:
      break;
  }
  return ok();
}

std::span<std::byte> CollectiveRun::find_home(Rank peer, SegmentTag tag, std::size_t bytes) const {
  const int32_t receive = index_.find_receive(peer, tag.stream);
  if (!has_segment(program_.receives, receive, tag.segment) || bytes == 0) {
    return {};
  }
  const ProgramMessage& message = program_.receives[at(receive)];
  if (message.op != TransferOp::kCopy || arrivals_[index(receive, tag.segment)].has_arrived) {
    return {};
  }
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  for (int32_t item = message.first_item; item < message.first_item + message.item_count; ++item) {
    const int32_t slot = program_.commits[at(item)].slot;
    const Interval elements = program_.segment(program_.slots[at(slot)], tag.segment);
    std::byte* const chunk = home(program_.slots[at(slot)], tag.segment);
    if ((begin != nullptr && chunk != end) || !may_commit(slot, tag.segment, item)) {
      return {};
    }
    begin = begin == nullptr ? chunk : begin;
    end = chunk + (elements.end - elements.begin) * element_bytes_;
  }
  return end - begin == static_cast<std::ptrdiff_t>(bytes) ? std::span(begin, end)
                                                           : std::span<std::byte>();
}

Status CollectiveRun::handle_arrival(const TransportEvent& event) {
  const int32_t receive = index_.find_receive(event.peer, event.tag.stream);
  if (!has_segment(program_.receives, receive, event.tag.segment)) {
    return broken(event);
  }
  const ProgramMessage& message = program_.receives[at(receive)];
  Arrival& arrival = arrivals_[index(receive, event.tag.segment)];
  if (arrival.has_arrived) {
    return broken(event);
  }
  arrival = {true, event.is_lent, event.is_remote, event.place, message.item_count};
  life_.has_remote = life_.has_remote || event.is_remote;
  spec_->flight.arrived(event.peer);
  // An empty segment has no payload but must be told from one that has not arrived.
  static constexpr std::byte kNothing{0};
  const std::byte* next = event.payload.empty() ? &kNothing : event.payload.data();
  int64_t total = 0;
  for (int32_t item = message.first_item; item < message.first_item + message.item_count; ++item) {
    const ProgramSlot& slot = program_.slots[at(program_.commits[at(item)].slot)];
    const Interval elements = program_.segment(slot, event.tag.segment);
    const int64_t bytes = (elements.end - elements.begin) * element_bytes_;
    total += bytes;
    if (total > std::ssize(event.payload)) {
      return broken(event);
    }
    payload_[index(item, event.tag.segment)] = next;
    next += bytes;
    touched_.emplace_back(program_.commits[at(item)].slot, event.tag.segment);
  }
  return total == std::ssize(event.payload) ? ok() : broken(event);
}

Status CollectiveRun::handle_sent(const TransportEvent& event) {
  const int32_t send = index_.find_send(event.peer, event.tag.stream);
  if (!has_segment(program_.sends, send, event.tag.segment)) {
    return broken(event);
  }
  finish_send(send, event.tag.segment);
  return ok();
}

// What the segment was read from may be overwritten.
void CollectiveRun::finish_send(int32_t send, int32_t segment) {
  --unsent_;
  for (int32_t item = 0; item < program_.sends[at(send)].item_count; ++item) {
    finish_read(send, item, segment);
  }
}

void CollectiveRun::finish_read(int32_t send, int32_t item, int32_t segment) {
  const ProgramMessage& message = program_.sends[at(send)];
  const std::size_t number = index(message.first_item + item, segment);
  if (is_read_[number]) {
    return;
  }
  is_read_[number] = true;
  const ProgramRead& read = program_.reads[at(message.first_item + item)];
  record(RecordEvent::Kind::kFinishRead, read.record_item, segment, message.translate);
  Counts& counts = counts_[index(read.slot, segment)];
  ++counts.reads;
  // What has not arrived goes on when it does.
  const std::span<const int32_t> commits = index_.slot_commits(read.slot);
  const bool is_here = at(counts.commits) < commits.size() &&
                       payload_[index(commits[at(counts.commits)], segment)] != nullptr;
  if (is_here || program_.slots[at(read.slot)].scratch_segments > 0) {
    touched_.emplace_back(read.slot, segment);
  }
}

Status CollectiveRun::handle_read(const TransportEvent& event) {
  const int32_t send = index_.find_send(event.peer, event.tag.stream);
  if (!has_segment(program_.sends, send, event.tag.segment) || event.item < 0 ||
      event.item >= program_.sends[at(send)].item_count) {
    return broken(event);
  }
  const ProgramIndex::Place place = index_.place(send, event.tag.segment);
  if (!outgoing_[at(place.target)].segments[at(place.position)].is_lent) {
    return broken(event);
  }
  finish_read(send, event.item, event.tag.segment);
  return ok();
}

Status CollectiveRun::handle_release(const TransportEvent& event) {
  const int32_t send = index_.find_send(event.peer, event.tag.stream);
  if (!has_segment(program_.sends, send, event.tag.segment)) {
    return broken(event);
  }
  const ProgramIndex::Place place = index_.place(send, event.tag.segment);
  Outgoing& outgoing = outgoing_[at(place.target)];
  Outgoing::Segment& what = outgoing.segments[at(place.position)];
  if (!what.is_admitted || what.is_released) {
    return broken(event);
  }
  what.is_released = true;
  if (what.is_lent) {
    finish_send(send, event.tag.segment);
  }
  if (what.is_copied) {
    outbox_->release(outbox_key(send, event.tag.segment));
  }
  while (at(outgoing.smallest) < outgoing.segments.size() &&
         outgoing.segments[at(outgoing.smallest)].is_released) {
    ++outgoing.smallest;
  }
  if (at(outgoing.smallest) == outgoing.segments.size()) {
    std::erase(lanes_[event.peer.index()].runs, &outgoing);
  }
  return ok();
}

Status CollectiveRun::advance_touched() {
  // advance() may append: the segment that reuses the scratch of one that is over.
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    const auto [slot, segment] = touched_[i];
    PLEACH_TRY(advance(slot, segment));
  }
  touched_.clear();
  return ok();
}

bool CollectiveRun::is_over(int32_t slot, int32_t segment) const {
  const ProgramSlot& what = program_.slots[at(slot)];
  const Counts& counts = counts_[index(slot, segment)];
  return counts.commits == what.commit_count && counts.reads == what.read_count;
}

// Whether the segment's home may be written for the first time.
bool CollectiveRun::is_free(int32_t slot, int32_t segment) const {
  const int32_t held = program_.slots[at(slot)].scratch_segments;
  return held == 0 || segment < held || is_over(slot, segment - held);
}

// Whether all that the order asks for is there, but the arrival itself.
bool CollectiveRun::may_commit(int32_t slot, int32_t segment, int32_t commit) const {
  const Counts& counts = counts_[index(slot, segment)];
  return counts.commits < program_.slots[at(slot)].commit_count &&
         index_.slot_commits(slot)[at(counts.commits)] == commit &&
         counts.reads >= program_.commits[at(commit)].after_reads &&
         (counts.commits > 0 || is_free(slot, segment));
}

// Whether all arrivals of the step that commits next are here.
bool CollectiveRun::has_step(int32_t slot, int32_t segment) const {
  const std::span<const int32_t> commits =
      index_.slot_commits(slot).subspan(at(counts_[index(slot, segment)].commits));
  const int32_t step = program_.commits[at(commits.front())].step;
  return std::ranges::all_of(commits, [&](int32_t commit) {
    return program_.commits[at(commit)].step != step || payload_[index(commit, segment)] != nullptr;
  });
}

// Whether the arrivals of a step commit together: what is rounded once a fold would tell what was
// folded, an own value that is not the first needs all before it, and peers' memory is read in one
// pass.
bool CollectiveRun::folds_whole_steps(int32_t commit, int32_t segment) const {
  return is_half(spec_->type) || program_.commits[at(commit)].before_own > 0 ||
         arrival_of(commit, segment).is_lent;
}

const CollectiveRun::Arrival& CollectiveRun::arrival_of(int32_t commit, int32_t segment) const {
  return arrivals_[index(index_.receive_of_commit(commit), segment)];
}

Status CollectiveRun::advance(int32_t slot, int32_t segment) {
  const ProgramSlot& what = program_.slots[at(slot)];
  const Counts& counts = counts_[index(slot, segment)];
  const std::span<const int32_t> commits = index_.slot_commits(slot);
  while (counts.commits < what.commit_count) {
    const int32_t next = commits[at(counts.commits)];
    if (payload_[index(next, segment)] == nullptr || !may_commit(slot, segment, next) ||
        (folds_whole_steps(next, segment) && !has_step(slot, segment))) {
      return ok();
    }
    PLEACH_TRY(commit(slot, segment));
  }
  if (what.scratch_segments > 0 && segment + what.scratch_segments < what.segment_count &&
      is_over(slot, segment)) {
    touched_.emplace_back(slot, segment + what.scratch_segments);
  }
  return ok();
}

// Commits the slot's next arrival and, in the same pass, those of its step that are here too.
Status CollectiveRun::commit(int32_t slot, int32_t segment) {
  Counts& counts = counts_[index(slot, segment)];
  std::span<const int32_t> commits = index_.slot_commits(slot).subspan(at(counts.commits));
  const int32_t step = program_.commits[at(commits.front())].step;
  const auto last = std::ranges::find_if(commits, [&](int32_t commit) {
    return program_.commits[at(commit)].step != step || payload_[index(commit, segment)] == nullptr;
  });
  commits = commits.first(at(last - commits.begin()));
  PLEACH_TRY(fold(slot, segment, commits));
  for (const int32_t commit : commits) {
    PLEACH_TRY(finish_chunk(commit, segment));
  }
  counts.commits += count_of(commits);
  for (const int32_t read : index_.reads_after(slot, counts.commits)) {
    const int32_t send = index_.send_of_read(read);
    if (--blocked_reads_[index(send, segment)] == 0) {
      make_ready(send, segment);
    }
  }
  return ok();
}

// Whether what so many commits leave at home is not wanted in the cache: no message reads it any
// more, or one does from far.
bool CollectiveRun::writes_past_caches(int32_t slot, int32_t commits,
                                       std::span<const std::byte> bytes) const {
  const ProgramSlot& what = program_.slots[at(slot)];
  if (!is_large_ && std::ssize(bytes) < kLeastStreamedToPeers) {
    return false;
  }
  const std::size_t readers = index_.reads_after(slot, commits).size();
  if (readers == 0) {
    return is_large_ && what.home.buffer == Buffer::kOutput && commits == what.commit_count;
  }
  const bool is_copied = readers > 1 && outbox_ != nullptr &&
                         std::ssize(bytes) >= std::max(kLeastCopied, channel_->least_lent) &&
                         find_peer_region(bytes) == nullptr;
  return !is_copied && std::ssize(bytes) >= kLeastStreamedToPeers && transport_->has_far_peers();
}

// Writes home what the slot's next commits make of it: block by block where something is fetched.
Status CollectiveRun::fold(int32_t slot, int32_t segment, std::span<const int32_t> commits) {
  const ProgramSlot& what = program_.slots[at(slot)];
  const int32_t before = counts_[index(slot, segment)].commits;
  const int32_t after = before + count_of(commits);
  const Interval elements = program_.segment(what, segment);
  const int64_t bytes = (elements.end - elements.begin) * element_bytes_;
  if (bytes == 0) {
    return ok();
  }
  std::byte* const out = home(what, segment);
  const bool streams = writes_past_caches(slot, after, {out, static_cast<std::size_t>(bytes)});
  const auto is_remote = [&](int32_t commit) { return arrival_of(commit, segment).is_remote; };
  if (index_.commit_op(commits.front()) == TransferOp::kCopy) {
    const std::byte* const from = payload_[index(commits.front(), segment)];
    if (is_remote(commits.front())) {
      return fetch(commits.front(), segment, 0, {out, static_cast<std::size_t>(bytes)});
    }
    if (from != out) {
      (streams ? stream_copy : copy)(out, from, bytes);
    }
    return ok();
  }
  const auto remote_count =
      life_.has_remote ? std::ranges::count_if(commits, is_remote) : std::ptrdiff_t{0};
  // A whole number of elements of any type, and of lines.
  const int64_t block =
      remote_count == 0 ? bytes : std::min(bytes, kFetchedBytes / remote_count / 64 * 64);
  ScratchBlocks::Block fetched = blocks_->take(remote_count * block);
  const std::byte* const own = value(what, segment, before == 0);
  const auto before_own = at(program_.commits[at(commits.front())].before_own);
  for (int64_t begin = 0; begin < bytes; begin += block) {
    const int64_t length = std::min(block, bytes - begin);
    std::byte* room = fetched.bytes.get();
    operands_.clear();
    for (const int32_t commit : commits) {
      if (operands_.size() == before_own) {
        operands_.push_back(own + begin);
      }
      if (remote_count == 0 || !is_remote(commit)) {
        operands_.push_back(payload_[index(commit, segment)] + begin);
        continue;
      }
      PLEACH_TRY(fetch(commit, segment, begin, {room, static_cast<std::size_t>(length)}));
      operands_.push_back(room);
      room += length;
    }
    if (operands_.size() == before_own) {
      operands_.push_back(own + begin);
    }
    const std::span<const std::byte* const> others = std::span(operands_).subspan(1);
    (streams ? stream_reduce : reduce)({spec_->type, spec_->op}, out + begin, operands_.front(),
                                       others, length / element_bytes_);
  }
  blocks_->give_back(std::move(fetched));
  return ok();
}

// Reads a part of a chunk where it stands at the peer.
Status CollectiveRun::fetch(int32_t commit, int32_t segment, int64_t offset,
                            std::span<std::byte> to) {
  const Rank peer = program_.receives[at(index_.receive_of_commit(commit))].peer;
  if (transport_->fetch(peer, payload_[index(commit, segment)] + offset, to)) {
    return ok();
  }
  return fail(ErrorCode::kPeerLost, peer,
              fmt::format("rank {} was lost: its memory cannot be read", peer.value));
}

// Books the commit and frees the landing place after the last chunk of its message.
Status CollectiveRun::finish_chunk(int32_t commit, int32_t segment) {
  const int32_t receive = index_.receive_of_commit(commit);
  const ProgramMessage& message = program_.receives[at(receive)];
  record(RecordEvent::Kind::kCommit, program_.commits[at(commit)].record_item, segment,
         message.translate);
  payload_[index(commit, segment)] = nullptr;
  --uncommitted_;
  Arrival& arrival = arrivals_[index(receive, segment)];
  const SegmentTag tag{spec_->operation, message.stream, segment};
  Status told = ok();
  if (--arrival.uncommitted == 0) {
    told = transport_->release(message.peer, channel_->number, tag, arrival.place);
  } else if (arrival.is_lent) {
    told = transport_->tell_read(message.peer, channel_->number, tag, commit - message.first_item);
  }
  return told ? ok() : Status(fail(told.error().code, message.peer, told.error().message));
}

void CollectiveRun::finish() const {
  copy_results();
  finish_output(*spec_);
}

void CollectiveRun::copy_results() const {
  for (const ProgramSlot& slot : program_.slots) {
    if (slot.result.buffer == Buffer::kNone || slot.length == 0) {
      continue;
    }
    const Location& from = slot.commit_count > 0 ? slot.home : slot.initial;
    (is_large_ ? stream_copy : copy)(spec_->output + slot.result.offset * element_bytes_,
                                     address(from, from.offset), slot.length * element_bytes_);
  }
}

Error CollectiveRun::fail(ErrorCode code, Rank culprit, std::string cause) {
  culprit_ = culprit;
  return {code, std::move(cause)};
}

Error CollectiveRun::broken(const TransportEvent& event) {
  return fail(ErrorCode::kIo, event.peer,
              fmt::format("rank {} sent what does not belong to the schedule (event {}, stream {}, "
                          "segment {}, {} bytes)",
                          event.peer.value, static_cast<int>(event.kind), event.tag.stream,
                          event.tag.segment, event.payload.size()));
}

}  // namespace pleach
