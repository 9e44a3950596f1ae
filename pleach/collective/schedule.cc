#include "pleach/collective/schedule.h"

#include <algorithm>
#include <tuple>

#include "pleach/base/hash.h"
#include "pleach/base/interruptible_sort.h"

namespace pleach {
namespace {

bool before(const Transfer& a, const Transfer& b) {
  const auto key = [](const Transfer& t) {
    return std::tie(t.step, t.first_chunk, t.source, t.target, t.chunk_count, t.op, t.route,
                    t.source_pass, t.target_pass);
  };
  return key(a) < key(b);
}

// Two 32-bit fields in one word: half the hashing of large schedules.
uint64_t packed(int32_t high, int32_t low) {
  return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
}

}  // namespace

int32_t RouteTable::add(std::span<const LinkId> links) {
  links_.insert(links_.end(), links.begin(), links.end());
  first_.push_back(links_.size());
  return size() - 1;
}

int32_t Schedule::step_count() const {
  int64_t sum = 0;
  for (const int32_t steps : phase_steps) {
    sum = std::min<int64_t>(sum + steps, INT32_MAX);
  }
  return static_cast<int32_t>(sum);
}

int64_t Schedule::transfer_count() const {
  const auto count = static_cast<int64_t>(transfers.size());
  return symmetry ? count * rank_count() : count;
}

void sort_transfers(Schedule& schedule) {
  if (!std::is_sorted(schedule.transfers.begin(), schedule.transfers.end(), before)) {
    sort_interruptibly(schedule.transfers, before);
  }
}

bool names_passes(const Schedule& schedule) {
  return std::ranges::any_of(schedule.transfers, [](const Transfer& transfer) {
    return transfer.source_pass != 0 || transfer.target_pass != 0;
  });
}

uint64_t schedule_hash(const Schedule& schedule) {
  Fingerprint hash;
  hash.add(static_cast<int32_t>(schedule.collective));
  hash.add(schedule.root.value);
  hash.add(static_cast<uint64_t>(schedule.participants.size()));
  for (const NodeId node : schedule.participants) {
    hash.add(node.value);
  }
  hash.add(schedule.chunks.count());
  hash.add(schedule.chunks.total());
  hash.add(static_cast<int32_t>(schedule.chunks.is_uniform()));
  for (int32_t chunk = 0; !schedule.chunks.is_uniform() && chunk < schedule.chunks.count();
       ++chunk) {
    hash.add(schedule.chunks.weight(chunk));
  }
  hash.add(schedule.period);
  hash.add(static_cast<int32_t>(schedule.fold_order));
  hash.add(static_cast<uint64_t>(schedule.phase_steps.size()));
  for (const int32_t steps : schedule.phase_steps) {
    hash.add(steps);
  }
  hash.add(static_cast<uint64_t>(schedule.transfers.size()));
  for (const Transfer& transfer : schedule.transfers) {
    hash.add(packed(transfer.first_chunk, transfer.chunk_count));
    hash.add(packed(transfer.source.value, transfer.target.value));
    hash.add(packed(transfer.step, transfer.route));
    hash.add(static_cast<int32_t>(transfer.op));
    if (transfer.source_pass != 0 || transfer.target_pass != 0) {
      hash.add(packed(transfer.source_pass, transfer.target_pass));
    }
  }
  hash.add(schedule.routes.size());
  for (int32_t route = 0; route < schedule.routes.size(); ++route) {
    hash.add(static_cast<uint64_t>(schedule.routes[route].size()));
    for (const LinkId link : schedule.routes[route]) {
      hash.add(link.value);
    }
  }
  hash.add(static_cast<uint64_t>(schedule.symmetry ? schedule.symmetry->dimensions.size() + 1 : 0));
  if (schedule.symmetry) {
    for (const int32_t size : schedule.symmetry->dimensions) {
      hash.add(size);
    }
  }
  return hash.value();
}

}  // namespace pleach
