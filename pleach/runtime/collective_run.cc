#include "pleach/runtime/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/kernels.h"
#include "pleach/runtime/program_index.h"

namespace pleach {

CollectiveRun::CollectiveRun(const ProgramIndex& index)
    : index_(index), program_(index.program()), segments_(program_.segment_count) {
  const std::size_t segments = at(segments_);
  landings_.reserve(index.sources().size());
  counts_.resize(program_.slots.size() * segments);
  blocked_reads_.resize(program_.sends.size() * segments);
  arrivals_.resize(program_.receives.size() * segments);
  payload_.resize(program_.commits.size() * segments);
  has_begun_.resize(index.peers().size());
  outgoing_.reserve(index.targets().size());
  for (std::size_t target = 0; target < index.targets().size(); ++target) {
    outgoing_.emplace_back(index.order(target).size());
  }
}

void CollectiveRun::reset() {
  std::ranges::fill(counts_, Counts());
  std::ranges::fill(arrivals_, Arrival());
  std::ranges::fill(payload_, nullptr);
  has_begun_.assign(has_begun_.size(), false);
  for (Outgoing& outgoing : outgoing_) {
    outgoing.ready.clear();
    outgoing.admitted.assign(outgoing.admitted.size(), false);
    outgoing.released.assign(outgoing.released.size(), false);
    outgoing.smallest = 0;
    outgoing.free_places = 0;
    outgoing.is_sending = false;
  }
  touched_.clear();
  landings_.clear();
  unsent_ = std::ssize(blocked_reads_);
  uncommitted_ = std::ssize(payload_);
  not_begun_ = count_of(has_begun_);
}

Status CollectiveRun::start(const Operation& operation, Transport& transport, TimePoint now) {
  operation_ = operation;
  transport_ = &transport;
  element_bytes_ = element_bytes(operation.type);
  if (const int64_t bytes = program_.scratch_elements * element_bytes_; scratch_.size < bytes) {
    scratch_.bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    scratch_.size = bytes;
  }
  reset();
  life_ = {.start = now, .last_event = now, .moved_bytes = 0, .has_news = false};
  PLEACH_TRY(begin());
  if (is_done()) {
    copy_results();
  }
  return ok();
}

const std::byte* CollectiveRun::address(const Location& location, int64_t offset) const {
  const int64_t bytes = offset * element_bytes_;
  switch (location.buffer) {
    case Buffer::kInput:
      return operation_.input + bytes;
    case Buffer::kOutput:
      return operation_.output + bytes;
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
      slot.home.buffer == Buffer::kScratch ? scratch_.bytes.get() : operation_.output;
  return base + program_.home_offset(slot, segment) * element_bytes_;
}

const std::byte* CollectiveRun::value(const ProgramSlot& slot, int32_t segment,
                                      bool is_initial) const {
  return is_initial
             ? address(slot.initial, slot.initial.offset + program_.segment(slot, segment).begin)
             : home(slot, segment);
}

void CollectiveRun::record(RecordEvent::Kind kind, int32_t item, int32_t segment,
                           int32_t translate) {
  if (operation_.record != nullptr) {
    operation_.record->push_back({kind, item, segment, translate});
  }
}

Status CollectiveRun::begin() {
  for (const ProgramIndex::Source& source : index_.sources()) {
    const int64_t places = std::min<int64_t>(operation_.landing_places, source.segment_total);
    landings_.push_back(
        {source.peer, static_cast<int32_t>(places), source.place_elements * element_bytes_});
  }
  PLEACH_TRY(transport_->begin({.sequence = operation_.sequence,
                                .fingerprint = operation_.fingerprint,
                                .landings = landings_,
                                .targets = index_.targets()}));
  for (int32_t send = 0; send < count_of(program_.sends); ++send) {
    const ProgramMessage& message = program_.sends[at(send)];
    int32_t blocked = 0;
    for (int32_t k = 0; k < message.item_count; ++k) {
      blocked += program_.reads[at(message.first_item + k)].after_commits > 0 ? 1 : 0;
    }
    for (int32_t segment = 0; segment < segments_; ++segment) {
      blocked_reads_[index(send, segment)] = blocked;
      if (blocked == 0) {
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
  PLEACH_TRY(advance_touched());
  for (std::size_t connection = 0; connection < outgoing_.size(); ++connection) {
    PLEACH_TRY(serve(connection));
  }
  if (is_done()) {
    copy_results();
    return ok();
  }
  return check_expiry(now);
}

Status CollectiveRun::check_expiry(TimePoint now) {
  if (now < expiry()) {
    return ok();
  }
  const uint64_t moved = transport_->moved_bytes();
  if (moved == life_.moved_bytes || not_begun_ > 0) {
    return expired();
  }
  life_.moved_bytes = moved;  // A large segment is on its way.
  life_.last_event = now;
  return ok();
}

void CollectiveRun::make_ready(int32_t send, int32_t segment) {
  const ProgramIndex::Place place = index_.place(send, segment);
  outgoing_[at(place.target)].ready.insert(place.position);
}

Status CollectiveRun::serve(std::size_t connection) {
  Outgoing& outgoing = outgoing_[connection];
  if (outgoing.is_sending || outgoing.ready.empty() || outgoing.free_places == 0) {
    return ok();
  }
  const int32_t position = outgoing.ready.front();
  // The last free place is for the smallest segment that the peer has not committed, unless that
  // one holds a place already.
  if (position != outgoing.smallest && outgoing.free_places == 1 &&
      !outgoing.admitted[at(outgoing.smallest)]) {
    return ok();
  }
  outgoing.ready.erase(position);
  return send(connection, position);
}

Status CollectiveRun::send(std::size_t connection, int32_t position) {
  Outgoing& outgoing = outgoing_[connection];
  outgoing.admitted[at(position)] = true;
  --outgoing.free_places;
  outgoing.is_sending = true;
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
  return transport_->send(message.peer, {message.stream, segment}, pieces_);
}

Status CollectiveRun::handle(const TransportEvent& event) {
  life_.has_news = true;
  switch (event.kind) {
    case TransportEvent::Kind::kArrived:
      return handle_arrival(event);
    case TransportEvent::Kind::kSent:
      return handle_sent(event);
    case TransportEvent::Kind::kReleased:
      return handle_release(event);
    case TransportEvent::Kind::kGranted:
      return handle_begun(event);
    case TransportEvent::Kind::kRefused:
      return fail(ErrorCode::kInvalidArgument, event.peer,
                  fmt::format("rank {} runs another request: the schedule, the collective's size, "
                              "type or reduction, or the segments differ",
                              event.peer.value));
    case TransportEvent::Kind::kLost:
      return fail(ErrorCode::kPeerLost, event.peer,
                  fmt::format("rank {} was lost: {}", event.peer.value, event.reason));
  }
  return broken(event);
}

Status CollectiveRun::handle_begun(const TransportEvent& event) {
  const int32_t peer = index_.peer_index(event.peer);
  if (peer < 0 || has_begun_[at(peer)] || event.place < 0) {
    return broken(event);
  }
  has_begun_[at(peer)] = true;
  --not_begun_;
  if (const int32_t target = index_.target_index(event.peer); target >= 0) {
    if (event.place == 0) {
      return broken(event);
    }
    outgoing_[at(target)].free_places = event.place;
  }
  return ok();
}

Status CollectiveRun::handle_arrival(const TransportEvent& event) {
  const int32_t receive = index_.find_receive(event.peer, event.tag.stream);
  if (receive < 0 || event.tag.segment < 0 || event.tag.segment >= segments_) {
    return broken(event);
  }
  const ProgramMessage& message = program_.receives[at(receive)];
  Arrival& arrival = arrivals_[index(receive, event.tag.segment)];
  if (arrival.has_arrived) {
    return broken(event);
  }
  arrival = {true, event.place, message.item_count};
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
  if (send < 0 || event.tag.segment < 0 || event.tag.segment >= segments_) {
    return broken(event);
  }
  const ProgramMessage& message = program_.sends[at(send)];
  outgoing_[at(index_.place(send, event.tag.segment).target)].is_sending = false;
  --unsent_;
  for (int32_t item = message.first_item; item < message.first_item + message.item_count; ++item) {
    const ProgramRead& read = program_.reads[at(item)];
    record(RecordEvent::Kind::kFinishRead, read.record_item, event.tag.segment, message.translate);
    ++counts_[index(read.slot, event.tag.segment)].reads;
    touched_.emplace_back(read.slot, event.tag.segment);
  }
  return ok();
}

Status CollectiveRun::handle_release(const TransportEvent& event) {
  const int32_t send = index_.find_send(event.peer, event.tag.stream);
  if (send < 0 || event.tag.segment < 0 || event.tag.segment >= segments_) {
    return broken(event);
  }
  const ProgramIndex::Place place = index_.place(send, event.tag.segment);
  Outgoing& outgoing = outgoing_[at(place.target)];
  if (!outgoing.admitted[at(place.position)] || outgoing.released[at(place.position)]) {
    return broken(event);
  }
  outgoing.released[at(place.position)] = true;
  ++outgoing.free_places;
  while (at(outgoing.smallest) < outgoing.released.size() &&
         outgoing.released[at(outgoing.smallest)]) {
    ++outgoing.smallest;
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

Status CollectiveRun::advance(int32_t slot, int32_t segment) {
  const ProgramSlot& what = program_.slots[at(slot)];
  const Counts& counts = counts_[index(slot, segment)];
  const std::span<const int32_t> commits = index_.slot_commits(slot);
  while (counts.commits < what.commit_count) {
    const int32_t next = commits[at(counts.commits)];
    if (payload_[index(next, segment)] == nullptr ||
        counts.reads < program_.commits[at(next)].after_reads ||
        (counts.commits == 0 && !is_free(slot, segment))) {
      return ok();
    }
    PLEACH_TRY(commit(slot, segment));
  }
  if (what.scratch_segments > 0 && segment + what.scratch_segments < segments_ &&
      is_over(slot, segment)) {
    touched_.emplace_back(slot, segment + what.scratch_segments);
  }
  return ok();
}

// Commits the slot's next arrival and, in the same pass, those of its step that are here too.
Status CollectiveRun::commit(int32_t slot, int32_t segment) {
  constexpr std::size_t kMostFused = 16;
  const ProgramSlot& what = program_.slots[at(slot)];
  Counts& counts = counts_[index(slot, segment)];
  const std::span<const int32_t> commits = index_.slot_commits(slot).subspan(at(counts.commits));
  const ProgramCommit& first = program_.commits[at(commits.front())];
  std::array<const std::byte*, kMostFused> arrived = {};
  std::size_t count = 0;
  while (count < std::min(commits.size(), kMostFused)) {
    const ProgramCommit& next = program_.commits[at(commits[count])];
    const std::byte* const payload = payload_[index(commits[count], segment)];
    if (next.step != first.step || payload == nullptr) {
      break;
    }
    arrived[count++] = payload;
  }
  const Interval elements = program_.segment(what, segment);
  const int64_t length = elements.end - elements.begin;
  if (length > 0) {
    std::byte* const out = home(what, segment);
    if (index_.commit_op(commits.front()) == TransferOp::kCopy) {
      std::memcpy(out, arrived[0], static_cast<std::size_t>(length * element_bytes_));
    } else {
      reduce({operation_.type, operation_.op}, out, value(what, segment, counts.commits == 0),
             std::span(arrived).first(count), length);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    PLEACH_TRY(finish_chunk(commits[i], segment));
  }
  counts.commits += static_cast<int32_t>(count);
  for (const int32_t read : index_.reads_after(slot, counts.commits)) {
    const int32_t send = index_.send_of_read(read);
    if (--blocked_reads_[index(send, segment)] == 0) {
      make_ready(send, segment);
    }
  }
  return ok();
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
  if (--arrival.uncommitted > 0) {
    return ok();
  }
  return transport_->release(message.peer, {message.stream, segment}, arrival.place);
}

void CollectiveRun::copy_results() const {
  for (const ProgramSlot& slot : program_.slots) {
    if (slot.result.buffer == Buffer::kNone || slot.length == 0) {
      continue;
    }
    const Location& from = slot.commit_count > 0 ? slot.home : slot.initial;
    std::memcpy(operation_.output + slot.result.offset * element_bytes_, address(from, from.offset),
                static_cast<std::size_t>(slot.length * element_bytes_));
  }
}

// Peers get the deadline to begin. After that a rank that sees nothing at all for the deadline
// gives up a little later still, so that who knows more speaks first.
TimePoint CollectiveRun::expiry() const {
  return not_begun_ > 0 ? life_.start + operation_.deadline
                        : life_.last_event + operation_.deadline + operation_.deadline / 4;
}

Error CollectiveRun::fail(ErrorCode code, Rank culprit, std::string cause) const {
  if (operation_.culprit != nullptr) {
    *operation_.culprit = culprit;
  }
  return {code, std::move(cause)};
}

Error CollectiveRun::broken(const TransportEvent& event) const {
  return fail(ErrorCode::kIo, event.peer,
              fmt::format("rank {} sent what does not belong to the schedule (event {}, stream {}, "
                          "segment {}, {} bytes)",
                          event.peer.value, static_cast<int>(event.kind), event.tag.stream,
                          event.tag.segment, event.payload.size()));
}

Error CollectiveRun::expired() const {
  const double seconds = std::chrono::duration<double>(operation_.deadline).count();
  if (not_begun_ > 0) {
    std::string missing;
    Rank culprit;
    for (std::size_t peer = 0; peer < has_begun_.size(); ++peer) {
      if (!has_begun_[peer]) {
        culprit = culprit.value < 0 ? index_.peers()[peer] : culprit;
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", index_.peers()[peer].value);
      }
    }
    return fail(ErrorCode::kTimeout, culprit,
                fmt::format("rank{} {} did not begin it within {:.3g} s",
                            not_begun_ == 1 ? "" : "s", missing, seconds));
  }
  // The first segment in key order that has not arrived, else the first that has not left.
  std::optional<std::tuple<int64_t, int32_t, int32_t, Rank>> first;
  const auto consider = [&](const ProgramMessage& message, int32_t segment) {
    const int64_t key = int64_t{segment} * program_.period + message.step;
    const std::tuple candidate(key, segment, message.first_chunk, message.peer);
    first = first ? std::min(*first, candidate) : candidate;
  };
  for (int32_t receive = 0; receive < count_of(program_.receives); ++receive) {
    for (int32_t segment = 0; segment < segments_; ++segment) {
      if (!arrivals_[index(receive, segment)].has_arrived) {
        consider(program_.receives[at(receive)], segment);
      }
    }
  }
  const bool is_arrival = first.has_value();
  for (std::size_t target = 0; target < outgoing_.size() && !is_arrival; ++target) {
    if (at(outgoing_[target].smallest) < index_.order(target).size()) {
      const auto [send, segment] = index_.order(target)[at(outgoing_[target].smallest)];
      consider(program_.sends[at(send)], segment);
    }
  }
  if (!first) {
    return Error{ErrorCode::kTimeout, "nothing happens and nothing is missing"};
  }
  const auto [key, segment, chunk, peer] = *first;
  return fail(ErrorCode::kTimeout, peer,
              fmt::format("waited {:.3g} s for rank {} to {} chunk {} of step {}, segment {}",
                          seconds, peer.value, is_arrival ? "send" : "take", chunk,
                          key - int64_t{segment} * program_.period, segment));
}

}  // namespace pleach
