// CollectiveRun: one run of one rank's program, as a state machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/flight_recorder.h"
#include "pleach/runtime/outbox.h"
#include "pleach/runtime/position_set.h"
#include "pleach/runtime/program_index.h"
#include "pleach/runtime/run_spec.h"
#include "pleach/runtime/scratch_blocks.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// The segments that go to one target: which of them may leave, and which have arrived for good.
struct Outgoing {
  struct Segment {
    bool is_admitted = false;
    bool is_released = false;
    bool is_lent = false;
    bool is_copied = false;  // what is lent is a copy in the outbox
  };
  explicit Outgoing(std::size_t size) : ready(size) {}
  PositionSet ready;
  std::span<Segment> segments;  // by position
  int32_t smallest = 0;         // position of the smallest unreleased segment
};

// One connection to a peer, as all runs of a channel share it.
struct Lane {
  int32_t free_places = 0;  // at the peer, that nothing is on its way to
  // Of the runs that have begun and are not done: those with unreleased segments, the earliest
  // operation first.
  std::vector<const Outgoing*> runs;
};

// Where a run takes place.
struct RunWorld {
  Transport& transport;
  const ChannelOptions& channel;
  std::span<Lane> lanes;       // by rank
  std::vector<bool>& sending;  // by rank: a segment, of any channel, is on its way there
  ScratchBlocks& scratch;
  Outbox* outbox = nullptr;  // null: peers cannot read there
};

// Told what has happened, it sends the ready segment with the smallest (segment·period + step,
// segment, first chunk) of each connection that the landing places admit, and folds what has
// arrived, as the order permits; of half types, which every fold rounds, and of what peers have
// lent whole steps only. It never waits, polls or reads a clock. Used again and again: runs
// allocate nothing but scratch that their world has not got (and `RunSpec::record` grows). Every
// call's errors end the run; telling the other ranks is the caller's. Not thread safe.
//   source  docs/architecture.md, "No deadlock with bounded buffers", "Channels"
class CollectiveRun {
 public:
  // Allocates what any run of the program needs. Borrows `index`.
  explicit CollectiveRun(const ProgramIndex& index);

  ~CollectiveRun() = default;
  CollectiveRun(const CollectiveRun&) = delete;
  CollectiveRun& operator=(const CollectiveRun&) = delete;

  // Begins a run, whatever has become of the one before. Borrows both until this one is done.
  // proceed() then sends what may go.
  [[gnu::flatten]] Status start(const RunSpec& spec, const RunWorld& world, TimePoint now);
  // Ends it where it stands: its part in the lanes is over, and its scratch is the next one's.
  void leave();
  // As Sink's, of this run: the segment is copied, its chunks stand there in one piece, and the
  // order permits their commits now.
  std::span<std::byte> find_home(Rank peer, SegmentTag tag, std::size_t bytes) const;
  // Takes note of an event of this run.
  //   errors  kPeerLost; kInvalidArgument: a peer runs something else, with both; kIo: a peer broke
  //   the rules
  [[gnu::flatten]] Status handle(const TransportEvent& event);
  // Does what follows from the events since it was called last; to be called at expiry() too.
  //   errors  those of the transport; kTimeout naming the peers that it waits for
  [[gnu::flatten]] Status proceed(TimePoint now);
  // Every segment has left and arrived, and the output is complete.
  bool is_done() const { return unsent_ == 0 && uncommitted_ == 0; }
  // When proceed() asks who has begun, or gives up, unless something happens before.
  TimePoint expiry() const;
  uint64_t operation() const { return spec_->operation; }
  // That the peer's segments carry if it runs the same request: what only the two know is added.
  uint64_t fingerprint(Rank peer) const {
    return is_alike_ ? spec_->fingerprint : with_exchange(program_.exchange(peer).received);
  }
  std::span<const Rank> peers() const { return index_.peers(); }
  // The rank that the last error was about; -1: this one.
  Rank culprit() const { return culprit_; }

 private:
  // What has happened to one segment of one slot.
  struct Counts {
    int32_t reads = 0;
    int32_t commits = 0;
  };
  // One segment of one message that has arrived.
  struct Arrival {
    bool has_arrived = false;
    bool is_lent = false;
    bool is_remote = false;
    int32_t place = 0;
    int32_t uncommitted = 0;  // chunks
  };
  // Every (message, segment) and (chunk event, segment) has an index item · segments + segment; a
  // message of fewer segments leaves the rest unused.
  std::size_t index(int32_t item, int32_t segment) const {
    return at(item) * at(segments_) + at(segment);
  }
  const std::byte* address(const Location& location, int64_t offset) const;
  std::byte* home(const ProgramSlot& slot, int32_t segment) const;
  const std::byte* value(const ProgramSlot& slot, int32_t segment, bool is_initial) const;

  void lay_out();
  void reset();
  Status begin();
  Status tell_begun(Rank peer);
  Status check_request(const TransportEvent& event);
  uint64_t fingerprint_for(Rank peer) const {
    return is_alike_ ? spec_->fingerprint : with_exchange(program_.exchange(peer).sent);
  }
  uint64_t with_exchange(int64_t count) const;
  Status serve(std::size_t connection);
  Status send(std::size_t connection, int32_t position);
  void make_ready(int32_t send, int32_t segment) {
    const ProgramIndex::Place place = index_.place(send, segment);
    outgoing_[at(place.target)].ready.insert(place.position);
  }
  Status handle_arrival(const TransportEvent& event);
  Status handle_release(const TransportEvent& event);
  Status handle_sent(const TransportEvent& event);
  Status handle_read(const TransportEvent& event);
  Result<bool> lend(std::size_t connection, int32_t position);
  std::span<const std::byte> copy_for_readers(int32_t send, int32_t segment) const;
  int32_t count_readers(const ProgramRead& read, int32_t segment) const;
  Outbox::Key outbox_key(int32_t send, int32_t segment) const;
  void finish_send(int32_t send, int32_t segment);
  void finish_read(int32_t send, int32_t item, int32_t segment);
  Status advance_touched();
  Status advance(int32_t slot, int32_t segment);
  bool may_commit(int32_t slot, int32_t segment, int32_t commit) const;
  bool is_free(int32_t slot, int32_t segment) const;
  bool is_over(int32_t slot, int32_t segment) const;
  bool has_step(int32_t slot, int32_t segment) const;
  bool folds_whole_steps(int32_t commit, int32_t segment) const;
  const Arrival& arrival_of(int32_t commit, int32_t segment) const;
  Status commit(int32_t slot, int32_t segment);
  bool writes_past_caches(int32_t slot, int32_t commits, std::span<const std::byte> bytes) const;
  Status fold(int32_t slot, int32_t segment, std::span<const int32_t> commits);
  Status fetch(int32_t commit, int32_t segment, int64_t offset, std::span<std::byte> to);
  Status finish_chunk(int32_t commit, int32_t segment);
  void record(RecordEvent::Kind kind, int32_t item, int32_t segment, int32_t translate) {
    if (spec_->record != nullptr) {
      spec_->record->push_back({kind, item, segment, translate});
    }
  }
  void finish() const;
  void copy_results() const;

  Status check_expiry(TimePoint now);
  Status ask_who_has_begun();
  bool needs(Rank peer) const;
  std::vector<bool> needed_peers() const;
  [[gnu::cold, gnu::noinline]] Error fail(ErrorCode code, Rank culprit, std::string cause);
  Error not_begun(const std::vector<bool>& needed);
  Error expired();
  [[gnu::cold, gnu::noinline]] Error broken(const TransportEvent& event);

  const ProgramIndex& index_;
  const Program& program_;
  const int32_t segments_;
  const bool is_alike_;  // the request is the same on all ranks
  Transport* transport_ = nullptr;
  const ChannelOptions* channel_ = nullptr;
  std::span<Lane> lanes_;
  std::vector<bool>* sending_ = nullptr;
  Outbox* outbox_ = nullptr;
  const RunSpec* spec_ = nullptr;
  Rank culprit_;
  int64_t element_bytes_ = 0;
  int64_t home_elements_ = 0;  // that the program writes to the output
  int64_t segment_total_ = 0;  // that are sent
  int64_t commit_total_ = 0;
  bool is_large_ = false;  // too large for the caches
  ScratchBlocks* blocks_ = nullptr;
  ScratchBlocks::Block scratch_;  // while it runs
  // What is zero when a run begins, in one block: its parts are the spans below.
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  } block_;
  std::span<Counts> counts_;                          // by slot
  std::span<bool> is_read_;                           // by read: it is over
  std::span<Arrival> arrivals_;                       // by receive
  std::span<const std::byte*> payload_;               // by commit; null: not arrived or committed
  std::span<bool> has_begun_, is_told_;               // by peer: what it, or this rank, has said
  std::vector<int32_t> blocked_reads_;                // by send: chunks whose read must still wait
  std::vector<int32_t> blocked_first_;                // the same, when a run begins
  std::vector<Outgoing> outgoing_;                    // by target
  std::vector<std::pair<int32_t, int32_t>> touched_;  // slots and segments that may go on
  std::vector<std::span<const std::byte>> pieces_;
  std::vector<const std::byte*> operands_;  // of one fold
  int64_t unsent_ = 0;
  int64_t uncommitted_ = 0;
  // When the run began and when something happened last, and the bytes that had moved by then.
  struct Life {
    TimePoint start, last_event;
    uint64_t moved_bytes = 0;
    bool has_news = false;    // an event since proceed() was called last
    bool has_asked = false;   // who has begun
    bool has_waited = false;  // for those who had not begun
    bool has_remote = false;  // something has arrived that fetch() reads
  } life_;
};

}  // namespace pleach
