// Channel: the collectives of one communicator that are in flight on this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/collective_run.h"
#include "pleach/runtime/traffic.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// Gives every operation its turn on the connections, and keeps what arrives for operations that
// have not begun here.
//   source  docs/architecture.md, "Channels"
class Channel final : public Traffic {
 public:
  // Opened on the transport already; closes it there. Borrows both.
  //   sending  of the transport's channels, by rank: a segment is on its way there
  Channel(const ChannelOptions& options, Transport& transport, std::vector<bool>& sending);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Begins a run as the next operation, `spec.operation`, one more than the last. Borrows the run
  // until it is done.
  Status start(CollectiveRun& run, const RunSpec& spec, TimePoint now);
  std::span<std::byte> find_home(Rank peer, SegmentTag tag, uint64_t fingerprint,
                                 std::size_t bytes) const override;
  Status handle(const TransportEvent& event) override;
  Status handle_departure(Rank peer, uint64_t ended) override;
  Status proceed(TimePoint now) override;
  bool wants_news() const override { return last_.unheard_count > 1; }
  uint64_t history() const override { return last_.history; }
  TimePoint expiry() const override;
  void abandon() override;
  uint64_t failed_operation() const override { return failed_.operation; }
  Rank culprit() const override { return failed_.culprit; }

 private:
  CollectiveRun* find(uint64_t operation) const;
  Status tell(CollectiveRun& run, const TransportEvent& event);
  Status note(const CollectiveRun& run, Status status);
  bool differs(const TransportEvent& event) const;
  void blame(uint64_t operation, Rank culprit);
  Error refuse(const TransportEvent& event);
  Error broken(const TransportEvent& event, std::string what);

  ChannelOptions options_;
  Transport& transport_;
  std::vector<bool>& sending_;
  std::vector<Lane> lanes_;  // by rank
  struct Memory {
    std::unique_ptr<Outbox> outbox;  // null: peers cannot read there
    ScratchBlocks scratch;
  } memory_;                           // that runs share
  std::vector<CollectiveRun*> runs_;   // in flight, the earliest operation first
  std::vector<TransportEvent> early_;  // segments of operations to come
  Status check_departed(const CollectiveRun& run);

  struct Peer {
    const char* lost = nullptr;     // why; null: it is not
    std::optional<uint64_t> ended;  // it has left, and its operations up to this one were over
    // The last operation, of those to come, that it said it has begun: and so all before.
    uint64_t begun = 0;
    uint64_t fingerprint = 0;
  };
  std::vector<Peer> peers_;  // by rank
  struct Last {
    uint64_t operation = 0;
    FlightNote flight;
    uint64_t history = 0;       // of all requests up to it
    int32_t unheard_count = 0;  // operations that ended as they began, since a peer was heard
  } last_;                      // that has begun
  struct Failed {
    uint64_t operation = 0;
    Rank culprit = {};
  } failed_;
};

}  // namespace pleach
