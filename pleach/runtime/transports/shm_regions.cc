#include "pleach/runtime/transports/shm_regions.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "pleach/runtime/net.h"
#include "pleach/runtime/transports/shared_memory.h"

namespace pleach::shm {
namespace {

// Travels with the descriptor of the region. Of no bytes: rings, and brings none.
struct Offer {
  static constexpr uint64_t kMagic = 0x0a31'4d45'4d4c'5050;  // "PPLMEM1\n"
  uint64_t magic = kMagic;
  uint64_t region = 0;
  int64_t bytes = 0;
};
// Of one rank, at a time.
constexpr std::size_t kMostRegions = 1024;
// More than a socket holds at once: whoever sends more than that does not stop.
constexpr int kMostOffers = 4096;
// Larger ones may be read in part.
constexpr int64_t kMostPopulated = int64_t{8} << 20;

}  // namespace

// All offers have one size, so that none is ever read in part.
void ring(int socket) {
  const Offer nothing;
  // Where it does not fit, the other end is readable already.
  static_cast<void>(!send(socket, &nothing, sizeof(nothing), MSG_DONTWAIT | MSG_NOSIGNAL));
}

bool RegionExchange::tell_of(int socket, const std::shared_ptr<const PeerRegion>& region) {
  const bool is_known = std::ranges::find(told_, region->number, &Told::number) != told_.end();
  if (is_known || told_.size() >= kMostRegions) {
    return is_known;
  }
  const Offer offer{.region = region->number, .bytes = region->bytes};
  if (!send_with_descriptors(socket, std::as_bytes(std::span(&offer, 1)),
                             std::array{region->memory.descriptor()})) {
    return false;
  }
  told_.push_back({region->number, region});
  return true;
}

std::vector<uint32_t> RegionExchange::take_freed() {
  std::vector<uint32_t> freed;
  std::erase_if(told_, [&](const Told& told) {
    if (!told.region.expired()) {
      return false;
    }
    freed.push_back(told.number);
    return true;
  });
  return freed;
}

bool RegionExchange::take_offers(int socket) {
  for (int left = kMostOffers; left > 0; --left) {
    Offer offer;
    std::vector<Descriptor> brought;
    const ssize_t count =
        receive_with_descriptors(socket, std::as_writable_bytes(std::span(&offer, 1)), brought);
    if (count < 0) {
      const bool is_over = errno != EAGAIN && errno != EINTR;
      if (is_out_of_descriptors(errno)) {
        lack_ = out_of_descriptors("share the memory of a peer", errno);
      }
      return !is_over;
    }
    if (count != ssize_t{sizeof(offer)} || offer.magic != Offer::kMagic) {
      return false;
    }
    if (offer.bytes == 0 && brought.empty()) {
      continue;
    }
    if (offer.region > UINT32_MAX || offer.bytes < 1 || brought.size() != 1 ||
        known_.size() >= kMostRegions) {
      return false;
    }
    const Result<SharedMemory> memory = SharedMemory::adopt(std::move(brought[0]), offer.bytes);
    Result<std::shared_ptr<std::byte>> mapping =
        memory ? memory->map(0, offer.bytes) : memory.error();
    if (!mapping) {
      lack_ = mapping.error().code == ErrorCode::kIo ? mapping.error() : lack_;
      return false;
    }
    if (offer.bytes <= kMostPopulated) {
      SharedMemory::populate(mapping->get(), offer.bytes);
    }
    known_.push_back(
        {static_cast<uint32_t>(offer.region), offer.bytes, std::move(mapping).value()});
  }
  return true;
}

std::shared_ptr<std::byte> RegionExchange::find(uint32_t number, int64_t offset,
                                                int64_t bytes) const {
  const auto known = std::ranges::find(known_, number, &Known::number);
  const bool is_inside = known != known_.end() && offset >= 0 && bytes >= 0 &&
                         bytes <= known->bytes && offset <= known->bytes - bytes;
  return is_inside ? std::shared_ptr<std::byte>(known->memory, known->memory.get() + offset)
                   : nullptr;
}

void RegionExchange::forget(uint32_t number) {
  std::erase_if(known_, [&](const Known& known) { return known.number == number; });
}

}  // namespace pleach::shm
