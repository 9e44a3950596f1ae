#include "pleach/runtime/transports/shm_peer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/text.h"
#include "pleach/runtime/streaming.h"

namespace pleach::shm {
namespace {

// Bytes over which all pairs of ranks together rotate: they do not drive out of the last cache what
// else the ranks have there.
constexpr int64_t kRotated = int64_t{16} << 20;

// A system call for less takes longer than two copies.
constexpr int64_t kLeastFetched = int64_t{64} * 1024;

}  // namespace

Result<uint64_t> read_address(std::string_view own, Rank self, std::string_view address,
                              Rank rank) {
  const std::vector<std::string_view> parts = split(address, ' ');
  uint64_t nonce = 0;
  if (parts.size() != 2 ||
      std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), nonce).ec !=
          std::errc()) {
    return no_address(rank, address);
  }
  if (parts[1] != own.substr(own.find(' ') + 1)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("transport shm: rank {} is on another host, in another container of "
                             "it or of another user than rank {}",
                             rank.value, self.value)};
  }
  return nonce;
}

PeerChannel::PeerChannel(const ChannelOptions& options, const ChannelEntry& entry,
                         std::shared_ptr<std::byte> memory, Rank rank, int32_t rank_count)
    : options_(options),
      entry_(&entry),
      memory_(std::move(memory)),
      area_(memory_.get() + area_bytes(options) * rank.value),
      in_(at(options.places)),
      rotates_(kRotated / (int64_t{rank_count} * (rank_count - 1))) {
  for (int32_t place = options.places - 1; place >= 0; --place) {
    free_.push_back(place);
  }
}

// Where so many bytes of what rotates begin.
int64_t PeerChannel::take_rotating(int64_t bytes) {
  const int64_t room = ring_bytes(options_);
  if (next_ < 0) {
    populate();
  }
  int64_t begin = find_room(stride(bytes), std::min(room, std::max(rotates_, stride(bytes))));
  begin = begin < 0 ? find_room(stride(bytes), room) : begin;
  PLEACH_CHECK(begin >= 0, "twice the places have room for one more segment");
  next_ = begin + stride(bytes);
  return begin + slot_bytes(options_) * options_.places;
}

// Has the pages that rotate made at once: copies that make them look slow, and are.
void PeerChannel::populate() {
  next_ = 0;
  SharedMemory::populate(area_ + slot_bytes(options_) * options_.places,
                         std::min(ring_bytes(options_), rotates_));
}

// The first gap from next_ on, and then from the beginning on, below `room`. -1: none.
int64_t PeerChannel::find_room(int64_t bytes, int64_t room) {
  const int64_t first = slot_bytes(options_) * options_.places;
  int64_t begin = next_;
  for (int wraps = 0; wraps < 2;) {
    if (begin + bytes > room) {
      begin = 0;
      ++wraps;
      continue;
    }
    const auto other = std::ranges::find_if(in_, [&](const std::optional<Segment>& one) {
      return one && one->begin < first + begin + bytes && first + begin < one->end;
    });
    if (other == in_.end()) {
      return begin;
    }
    begin = (*other)->end - first;
  }
  return -1;
}

std::optional<SegmentTag> PeerChannel::release(int32_t place) {
  if (place >= options_.places || !in_[at(place)]) {
    return std::nullopt;
  }
  free_.push_back(place);
  return std::exchange(in_[at(place)], std::nullopt)->tag;
}

namespace {

// Notes that there is no room to map a peer's memory. Memory that it has not is its mistake.
void note_lack(const Error& error, std::optional<Error>& lack) {
  if (error.code == ErrorCode::kIo) {
    lack = error;
  }
}

}  // namespace

bool Peer::adopt(std::vector<Descriptor> brought, const TransportContext& context,
                 std::optional<Error>& lack) {
  if (brought.size() != 1) {
    return false;
  }
  const int64_t bytes = control_bytes(context.rank_count);
  Result<SharedMemory> adopted = SharedMemory::adopt(std::move(brought[0]), bytes);
  if (!adopted) {
    return false;
  }
  Result<std::shared_ptr<std::byte>> mapped = adopted->map(0, bytes);
  if (!mapped) {
    note_lack(mapped.error(), lack);
    return false;
  }
  memory = std::move(adopted).value();
  shared = std::move(mapped).value();
  out = Writer(ring_in(shared.get(), context.rank));
  return true;
}

PeerChannel* Peer::open_channel(const ChannelOptions& options, const TransportContext& context,
                                std::optional<Error>& lack) {
  const int32_t ranks = std::max(2, context.ranks_on_host());
  for (const ChannelEntry& entry : control_in(shared.get()).channels) {
    const std::optional<int64_t> offset = entry.find(options.number);
    if (!offset) {
      continue;
    }
    // The ranks agree on a channel's places: only where they are is news.
    Result<std::shared_ptr<std::byte>> mapped =
        memory.map(*offset, area_bytes(options) * context.rank_count);
    if (!mapped) {
      note_lack(mapped.error(), lack);
      return nullptr;
    }
    return &channels.emplace_back(options, entry, std::move(*mapped), context.rank, ranks);
  }
  return nullptr;
}

void copy_pieces(std::span<const std::span<const std::byte>> pieces, std::byte* to, bool is_far) {
  for (const std::span<const std::byte> piece : pieces) {
    copy_to_peers(to, piece, is_far);
    to += piece.size();
  }
}

void Peer::put_timed(const Message& message, Distance& distance, const Clock& clock) {
  distance.settle();
  const TimePoint start = clock.now();
  out.put(message);
  distance.note(clock.now() - start);
}

bool Peer::prefers_to_read(const ChannelOptions& channel, std::span<const std::byte> bytes,
                           bool is_alone) const {
  using enum ChannelOptions::Fetching;
  return reads.reads_this && channel.fetching != kNever &&
         (channel.fetching == kAlways || (is_alone && std::ssize(bytes) >= kLeastFetched));
}

std::shared_ptr<std::byte> Peer::find_lent(const Message& message) {
  if (auto known =
          reads.regions.find(message.region, static_cast<int64_t>(message.word), message.length)) {
    return known;
  }
  // If it has left since, its socket still says so.
  static_cast<void>(reads.regions.take_offers(socket.get()));
  return reads.regions.find(message.region, static_cast<int64_t>(message.word), message.length);
}

}  // namespace pleach::shm
