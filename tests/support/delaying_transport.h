// DelayingTransport: wraps a transport and holds sends, releases and events back at random.
#pragma once

#include <memory>
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

  Status begin(const TransportOperation& operation) override {
    sends_.clear();
    releases_.clear();
    events_.clear();
    return inner_->begin(operation);
  }

  Status send(Rank peer, SegmentTag tag,
              std::span<const std::span<const std::byte>> pieces) override {
    sends_.push_back({patience(), peer, tag, {pieces.begin(), pieces.end()}});
    return ok();
  }

  Status release(Rank peer, SegmentTag tag, int32_t place) override {
    releases_.push_back({patience(), peer, tag, place});
    return ok();
  }

  Status poll(std::vector<TransportEvent>& events, TimePoint deadline) override {
    while (true) {
      PLEACH_TRY(go_on());
      const bool holds = !sends_.empty() || !releases_.empty() || !events_.empty();
      std::vector<TransportEvent> fresh;
      PLEACH_TRY(inner_->poll(fresh, holds ? TimePoint::min() : deadline));
      for (const TransportEvent& event : fresh) {
        events_.push_back({patience(), event});
      }
      const std::size_t before = events.size();
      std::erase_if(events_, [&](HeldEvent& held) {
        if (held.patience-- > 0) {
          return false;
        }
        events.push_back(held.event);
        return true;
      });
      if (events.size() > before || (fresh.empty() && !holds)) {
        return ok();
      }
    }
  }

 private:
  struct HeldSend {
    int patience;
    Rank peer;
    SegmentTag tag;
    std::vector<std::span<const std::byte>> pieces;
  };
  struct HeldRelease {
    int patience;
    Rank peer;
    SegmentTag tag;
    int32_t place;
  };
  struct HeldEvent {
    int patience;
    TransportEvent event;
  };

  int patience() { return static_cast<int>(rng_.below(2) == 0 ? 0 : rng_.below(6)); }

  Status go_on() {
    std::vector<HeldSend> sends = std::exchange(sends_, {});
    for (HeldSend& held : sends) {
      if (held.patience-- > 0) {
        sends_.push_back(std::move(held));
      } else {
        PLEACH_TRY(inner_->send(held.peer, held.tag, held.pieces));
      }
    }
    std::vector<HeldRelease> releases = std::exchange(releases_, {});
    for (HeldRelease& held : releases) {
      if (held.patience-- > 0) {
        releases_.push_back(held);
      } else {
        PLEACH_TRY(inner_->release(held.peer, held.tag, held.place));
      }
    }
    return ok();
  }

  std::unique_ptr<Transport> inner_;
  Rng rng_;
  std::vector<HeldSend> sends_;
  std::vector<HeldRelease> releases_;
  std::vector<HeldEvent> events_;
};

}  // namespace pleach::support
