// MessageChannel: the messages of one communicator that are in flight on this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/message_lists.h"
#include "pleach/runtime/message_matcher.h"
#include "pleach/runtime/message_state.h"
#include "pleach/runtime/traffic.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// The ranks that a channel is of, as one of them sees them.
struct MessageGroup {
  Rank rank;                    // in the job
  std::vector<Rank> job_ranks;  // by rank in the group
  Duration deadline = {};       // between events of a message that both sides have begun
};

// Every message is heard of by its target in the order of the calls, in one frame: whole, where it
// fits a landing place and enough of those are left, else as an announcement. What was announced is
// granted when a receive takes it, and then comes in segments to where it belongs. Frames hold
// their places only until they have been looked at, but those with whole messages, which hold them
// until they are received: at most all but one of a connection's.
//   source  docs/architecture.md, "Messages"
class MessageChannel final : public Traffic {
 public:
  // Opened on the transport already; closes it there. Borrows the last two.
  //   sending  of the transport's channels, by rank: a segment is on its way there
  MessageChannel(MessageGroup group, const ChannelOptions& options, Transport& transport,
                 std::vector<bool>& sending);
  ~MessageChannel() override;
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  // Begins `message.request`, of members of the group. Borrows the message until it is over.
  Status start(MessageState& message, TimePoint now);

  std::span<std::byte> find_home(Rank peer, SegmentTag tag, uint64_t fingerprint,
                                 std::size_t bytes) const override;
  Status handle(const TransportEvent& event) override;
  Status proceed(TimePoint now) override;
  TimePoint expiry() const override { return life_.next_check; }
  void abandon() override;
  uint64_t failed_operation() const override { return blame_.operation; }
  Rank culprit() const override { return blame_.culprit; }

 private:
  using Turns = LinkedList<MessageState, &MessageState::next_turn>;
  struct Peer {
    int32_t group_rank = -1;                // -1: it is no member
    const char* lost = nullptr;             // why; null: it is not
    int32_t free_places = 0;                // at the peer, that nothing is on its way to
    int32_t whole = 0;                      // of the others, with whole messages
    uint64_t sent = 0;                      // messages to it, of which it hears in this order
    uint64_t heard = 0;                     // messages from it that this rank has heard of
    int64_t unreceived = 0;                 // of them, those that wait for a receive
    std::vector<MessageLetter> ahead = {};  // that came before earlier ones
    // What is to go there: messages that it has not heard of, grants, messages that it granted.
    Turns unheard = {}, grants = {}, granted = {};
    bool is_granted_next = false;     // of the two kinds of messages
    bool is_active = false;           // something is to go there
    MessageState* leaving = nullptr;  // of the frame that is on its way
    TimePoint last_event = {};
  };
  // Peers that something is to go to, and those that something has come from.
  struct Busy {
    std::vector<Rank> active, told;
  };

  Peer& at_peer(Rank rank) { return peers_[rank.index()]; }
  int64_t segment_count(int64_t bytes) const;
  std::span<std::byte> segment(const MessageState& message, int64_t number) const;
  MessageState* find(bool is_send, Rank peer, uint64_t sequence) const;
  void activate(Rank rank);

  Status start_send(MessageState& message);
  Status start_receive(MessageState& message);
  Status deliver(const MessageLetter& letter);
  Status match(MessageState& receive, const MessageLetter& letter);
  Status serve(Rank rank);
  Status send_first(Rank rank, MessageState& message);
  Status send_segment(Rank rank, MessageState& message);
  Status send(Rank rank, MessageState& message, SegmentTag tag, std::span<const std::byte> bytes,
              uint64_t fingerprint);
  void finish_frame(MessageState& message, int32_t segment);
  void finish_segments(MessageState& message, int64_t count);

  Status handle_arrival(const TransportEvent& event);
  Status handle_first(const TransportEvent& event);
  Status handle_grant(const TransportEvent& event);
  Status handle_segment(const TransportEvent& event);
  Status handle_release(const TransportEvent& event);
  bool has_lost_all() const;
  Status handle_loss(Rank rank, const char* reason);

  template <typename Suits>
  MessageState* find_in_flight(const Suits& suits);
  Status check(TimePoint now);
  Error fail(const MessageState& message, ErrorCode code, Rank culprit, std::string cause);
  Error lost(const MessageState& message, Rank rank);
  Error expired(const MessageState& message);
  Error broken(const TransportEvent& event);

  const MessageGroup group_;
  const ChannelOptions options_;
  Transport& transport_;
  std::vector<bool>& sending_;
  std::vector<Peer> peers_;  // by rank in the job
  Busy busy_;
  MessageMatcher matcher_;
  // Sends that have been announced, or go to this rank itself, and receives of what is to come; by
  // sequence.
  KeyedLists<MessageState, &MessageState::next> announced_;
  struct Life {
    TimePoint next_check = TimePoint::max();  // of deadlines: nothing has expired before
    uint64_t moved_bytes = 0;                 // at the last check
  } life_;
  struct Blame {
    uint64_t operation = 0;
    Rank culprit;
  } blame_;
};

}  // namespace pleach
