#include "pleach/runtime/transports/place_pool.h"

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t stride(const ChannelOptions& options) {
  return (at(options.place_bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

const PlacePool::Channel* PlacePool::find(uint64_t channel) const {
  const auto found = std::ranges::find_if(
      channels_, [&](const Channel& open) { return open.options.number == channel; });
  return found == channels_.end() ? nullptr : &*found;
}

PlacePool::Channel* PlacePool::find(uint64_t channel) {
  return const_cast<Channel*>(std::as_const(*this).find(channel));
}

void PlacePool::open(const ChannelOptions& channel) {
  PLEACH_CHECK(!is_open(channel.number), "a channel is opened once");
  Channel& opened = channels_.emplace_back(Channel{channel, std::vector<OfPeer>(at(rank_count_))});
  for (OfPeer& peer : opened.peers) {
    for (int32_t place = channel.places - 1; place >= 0; --place) {
      peer.free.push_back(place);
    }
  }
}

void PlacePool::close(uint64_t channel) {
  std::erase_if(channels_, [&](const Channel& open) { return open.options.number == channel; });
  closed_.add(channel);
}

int32_t PlacePool::places(uint64_t channel) const {
  const Channel* const found = find(channel);
  return found == nullptr ? 0 : found->options.places;
}

std::optional<int32_t> PlacePool::take(uint64_t channel, Rank peer, std::size_t bytes) {
  Channel* const found = find(channel);
  if (found == nullptr || bytes > at(found->options.place_bytes) ||
      found->peers[peer.index()].free.empty()) {
    return std::nullopt;
  }
  std::vector<int32_t>& free = found->peers[peer.index()].free;
  const int32_t place = free.back();
  free.pop_back();
  return place;
}

std::span<std::byte> PlacePool::memory(uint64_t channel, Rank peer, int32_t place,
                                       std::size_t bytes) {
  Channel* const found = find(channel);
  if (found == nullptr || bytes == 0) {
    return {};
  }
  const std::size_t between = stride(found->options);
  std::unique_ptr<std::byte[]>& memory = found->peers[peer.index()].memory;
  if (memory == nullptr) {
    memory = std::make_unique_for_overwrite<std::byte[]>(between * at(found->options.places));
  }
  return {memory.get() + between * at(place), bytes};
}

void PlacePool::release(uint64_t channel, Rank peer, int32_t place) {
  if (Channel* const found = find(channel)) {
    found->peers[peer.index()].free.push_back(place);
  }
}

}  // namespace pleach
