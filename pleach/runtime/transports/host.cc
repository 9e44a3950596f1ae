// host: the ranks of one host share memory, and reach those of others over TCP.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"

namespace pleach {
namespace {

// Two transports, of which each peer has one. Who waits, waits in the near one, which is woken
// through memory; it returns when there is something to see in the far one.
class HostTransport final : public Transport {
 public:
  explicit HostTransport(const TransportContext& context)
      : context_(context), ways_(at(context.rank_count)), is_lost_(at(context.rank_count)) {}

  Status meet() {
    PLEACH_SET(home_, host_identity(context_.host.name));
    PLEACH_SET(far_, make("tcp"));
    context_.beside = far_->descriptor();
    PLEACH_SET(near_, make("shm"));
    return ok();
  }

  void set_sink(Sink& sink) override {
    near_->set_sink(sink);
    far_->set_sink(sink);
  }
  Status open(const ChannelOptions& channel) override {
    PLEACH_TRY(near_->open(channel));
    return far_->open(channel);
  }
  void abandon(uint64_t channel) override {
    near_->abandon(channel);
    far_->abandon(channel);
  }
  void close(uint64_t channel) override {
    near_->close(channel);
    far_->close(channel);
  }
  // Which host it is on, and both addresses.
  std::string address() const override {
    return fmt::format("{}\n{}\n{}", home_, near_->address(), far_->address());
  }
  Status introduce(Rank peer, std::string_view address) override {
    const std::vector<std::string_view> parts = split(address, '\n');
    if (parts.size() != 3) {
      return no_address(peer, address);
    }
    const bool is_near = parts[0] == home_;
    ways_[peer.index()] = is_near ? near_.get() : far_.get();
    return is_near ? near_->introduce(peer, parts[1]) : far_->introduce(peer, parts[2]);
  }
  Status connect(Rank peer) override { return way_to(peer).connect(peer); }
  void note_departure(Rank peer) override {
    if (Transport* const way = ways_[peer.index()]) {
      way->note_departure(peer);
    }
  }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                    uint64_t fingerprint) override {
    return way_to(peer).tell_begun(peer, channel, operation, fingerprint);
  }
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override {
    return way_to(peer).send(peer, channel, tag, fingerprint, pieces);
  }
  Result<bool> lend(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::byte> bytes) override {
    return way_to(peer).lend(peer, channel, tag, fingerprint, bytes);
  }
  // What is lent is lent by who shares memory.
  bool fetch(Rank peer, const std::byte* from, std::span<std::byte> to) override {
    return near_->fetch(peer, from, to);
  }
  Status tell_read(Rank peer, uint64_t channel, SegmentTag tag, int32_t item) override {
    return near_->tell_read(peer, channel, tag, item);
  }
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override {
    return way_to(peer).release(peer, channel, tag, place);
  }
  bool reads_peers() const override { return near_->reads_peers(); }
  bool holds_back() const override { return near_->holds_back() || far_->holds_back(); }
  Status flush() override {
    PLEACH_TRY(near_->flush());
    return far_->flush();
  }
  bool has_events() const override { return near_->has_events() || far_->has_events(); }
  TimePoint expiry() const override { return std::min(near_->expiry(), far_->expiry()); }
  void interrupt() override { near_->interrupt(); }
  Status wait(TimePoint deadline, bool is_eager) override {
    PLEACH_TRY(near_->wait(deadline, is_eager));
    return far_->wait(TimePoint::min(), false);
  }
  Status progress(std::vector<TransportEvent>& events) override {
    for (Transport* const way : {near_.get(), far_.get()}) {
      std::size_t kept = events.size();
      PLEACH_TRY(way->progress(events));
      for (std::size_t i = kept; i < events.size(); ++i) {
        if (accept(*way, events[i])) {
          events[kept++] = events[i];
        }
      }
      events.resize(kept);
    }
    return ok();
  }
  bool has_far_peers() const override { return near_->has_far_peers(); }
  uint64_t moved_bytes() const override { return near_->moved_bytes() + far_->moved_bytes(); }

 private:
  Result<std::unique_ptr<Transport>> make(const std::string& name) const {
    return create_transport(name, context_);
  }
  // Whether to tell of it. What a peer sends goes one way, so that its places are freed where they
  // are: the one asked for, or the first that something came by. By another: it is lost.
  bool accept(Transport& by, TransportEvent& event) {
    const std::size_t peer = event.peer.index();
    if (is_lost_[peer]) {
      return false;
    }
    const bool is_loss = event.kind == TransportEvent::Kind::kLost;
    if (!is_loss && ways_[peer] == nullptr) {
      ways_[peer] = &by;
    }
    if (!is_loss && ways_[peer] != &by) {
      event = {.kind = TransportEvent::Kind::kLost,
               .peer = event.peer,
               .reason = &by == near_.get()
                             ? "it sent through shared memory though it is on another host"
                             : "it sent over TCP though it shares this host's memory"};
    }
    is_lost_[peer] = event.kind == TransportEvent::Kind::kLost;
    return true;
  }
  Transport& way_to(Rank peer) const {
    Transport* const way = ways_[peer.index()];
    PLEACH_CHECK(way != nullptr, "a peer that nobody has introduced");
    return *way;
  }

  TransportContext context_;
  std::string home_;
  std::unique_ptr<Transport> far_, near_;  // near_ watches a descriptor of far_
  std::vector<Transport*> ways_;           // by rank; null: not known yet
  std::vector<bool> is_lost_;              // by rank
};

Result<std::unique_ptr<Transport>> create_host(const TransportContext& context) {
  auto transport = std::make_unique<HostTransport>(context);
  PLEACH_TRY(transport->meet());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace

extern const TransportKind kHostTransport = {
    .name = "host",
    .summary = "shm between the ranks of a host, tcp between hosts",
    .spans_processes = true,
    .spans_hosts = true,
    .create = create_host,
};

}  // namespace pleach
