// DelayingTransport: wraps a transport and holds sends, releases and events back at random.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/runtime/transport.h"

namespace pleach::support {

// Sends and releases go on, and events come out, some polls later than they would, in any order
// that a transport may show. A held send reads its memory late: who overwrites it before kSent is
// found out.
class DelayingTransport final : public Transport {
 public:
  DelayingTransport(std::unique_ptr<Transport> inner, uint64_t seed)
      : inner_(std::move(inner)), rng_(seed) {}

  void set_sink(Sink& sink) override { inner_->set_sink(sink); }
  void abandon(uint64_t channel) override { inner_->abandon(channel); }
  // What may be fetched is.
  Status open(const ChannelOptions& channel) override {
    ChannelOptions wanted = channel;
    if (wanted.fetching == ChannelOptions::Fetching::kWhereFaster) {
      wanted.fetching = ChannelOptions::Fetching::kAlways;
    }
    return inner_->open(wanted);
  }
  void close(uint64_t channel) override { inner_->close(channel); }
  std::string address() const override { return inner_->address(); }
  Status introduce(Rank peer, std::string_view address) override {
    return inner_->introduce(peer, address);
  }
  Status connect(Rank peer) override { return inner_->connect(peer); }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                    uint64_t fingerprint) override {
    return inner_->tell_begun(peer, channel, operation, fingerprint);
  }

  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override {
    sends_.push_back({patience(), peer, channel, tag, fingerprint, {pieces.begin(), pieces.end()}});
    holds_ = true;
    return false;
  }

  Result<bool> lend(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::byte> bytes) override {
    return inner_->lend(peer, channel, tag, fingerprint, bytes);
  }
  bool reads_peers() const override { return inner_->reads_peers(); }
  bool fetch(Rank peer, const std::byte* from, std::span<std::byte> to) override {
    return inner_->fetch(peer, moved(from, -kElsewhere), to);
  }
  Status tell_read(Rank peer, uint64_t channel, SegmentTag tag, int32_t item) override {
    return inner_->tell_read(peer, channel, tag, item);
  }

  // What was lent is released at once: its reader may look at nothing any more.
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override {
    if (std::erase(lent_, Lent(peer, channel, place)) > 0) {
      return inner_->release(peer, channel, tag, place);
    }
    releases_.push_back({patience(), peer, channel, tag, place});
    holds_ = true;
    return ok();
  }

  bool holds_back() const override { return inner_->holds_back(); }
  Status flush() override { return inner_->flush(); }

  bool has_events() const override { return holds_ || inner_->has_events(); }
  TimePoint expiry() const override { return inner_->expiry(); }
  void interrupt() override { inner_->interrupt(); }

  Status wait(TimePoint deadline, bool is_eager) override {
    return inner_->wait(holds_ ? TimePoint::min() : deadline, is_eager);
  }

  Status progress(std::vector<TransportEvent>& events) override {
    PLEACH_TRY(go_on());
    std::vector<TransportEvent> fresh;
    PLEACH_TRY(inner_->progress(fresh));
    for (const TransportEvent& event : fresh) {
      events_.push_back({patience(), event});
      if (event.is_remote) {
        std::span<const std::byte>& payload = events_.back().event.payload;
        payload = {moved(payload.data(), kElsewhere), payload.size()};
      }
      if (event.is_lent) {
        lent_.emplace_back(event.peer, event.channel, event.place);
      }
    }
    std::erase_if(events_, [&](HeldEvent& held) {
      if (held.patience-- > 0) {
        return false;
      }
      events.push_back(held.event);
      return true;
    });
    holds_ = !sends_.empty() || !releases_.empty() || !events_.empty();
    return ok();
  }

  uint64_t moved_bytes() const override { return inner_->moved_bytes(); }
  bool has_far_peers() const override { return !events_.empty(); }  // now and then

 private:
  // Remote payloads are not where ranks that are threads could read them all the same.
  static constexpr intptr_t kElsewhere = intptr_t{1} << 60;
  static const std::byte* moved(const std::byte* address, intptr_t by) {
    return reinterpret_cast<const std::byte*>(reinterpret_cast<intptr_t>(address) + by);
  }
  struct HeldSend {
    int patience;
    Rank peer;
    uint64_t channel;
    SegmentTag tag;
    uint64_t fingerprint;
    std::vector<std::span<const std::byte>> pieces;
  };
  struct HeldRelease {
    int patience;
    Rank peer;
    uint64_t channel;
    SegmentTag tag;
    int32_t place;
  };
  struct HeldEvent {
    int patience;
    TransportEvent event;
  };

  using Lent = std::tuple<Rank, uint64_t, int32_t>;  // peer, channel, place

  int patience() { return static_cast<int>(rng_.below(2) == 0 ? 0 : rng_.below(6)); }

  Status go_on() {
    std::vector<HeldSend> sends = std::exchange(sends_, {});
    for (HeldSend& held : sends) {
      if (held.patience-- > 0) {
        sends_.push_back(std::move(held));
      } else {
        PLEACH_ASSIGN(has_left, inner_->send(held.peer, held.channel, held.tag, held.fingerprint,
                                             held.pieces));
        if (has_left) {
          events_.push_back({patience(),
                             {.kind = TransportEvent::Kind::kSent,
                              .peer = held.peer,
                              .channel = held.channel,
                              .tag = held.tag}});
        }
      }
    }
    std::vector<HeldRelease> releases = std::exchange(releases_, {});
    for (HeldRelease& held : releases) {
      if (held.patience-- > 0) {
        releases_.push_back(held);
      } else {
        PLEACH_TRY(inner_->release(held.peer, held.channel, held.tag, held.place));
      }
    }
    return ok();
  }

  std::unique_ptr<Transport> inner_;
  Rng rng_;
  std::atomic<bool> holds_ = false;  // anything; read by who waits while others send
  std::vector<HeldSend> sends_;
  std::vector<HeldRelease> releases_;
  std::vector<HeldEvent> events_;
  std::vector<Lent> lent_;  // to this rank, and not released
};

}  // namespace pleach::support
