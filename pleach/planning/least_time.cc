#include "pleach/planning/least_time.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/planning/padding.h"

namespace pleach {
namespace {

// Of the bounds' own arithmetic.
constexpr double kSlack = 1e-12;

// A chain of messages up to a chunk's place on a rank.
struct Chain {
  double first_ps = 0;
  double ps_per_byte = 0;

  Chain then(const Chain& more) const {
    return {first_ps + more.first_ps, ps_per_byte + more.ps_per_byte};
  }
};

bool is_longer(const Chain& one, const Chain& other) {
  return std::tie(one.first_ps, one.ps_per_byte) > std::tie(other.first_ps, other.ps_per_byte);
}
bool is_fuller(const Chain& one, const Chain& other) {
  return std::tie(one.ps_per_byte, one.first_ps) > std::tie(other.ps_per_byte, other.first_ps);
}

// One schedule with all its transfers and routes.
class Messages {
 public:
  Messages(const Schedule& schedule, const Topology& topology, int32_t segment_count,
           bool is_padded)
      : schedule_(schedule), topology_(topology), segment_count_(segment_count) {
    // The chunks of an all_to_all cover the buffers of all ranks.
    const bool exchanges = schedule.collective == CollectiveKind::kAllToAll;
    const double buffers = exchanges ? schedule.rank_count() : 1;
    buffers_per_weight_ = buffers / static_cast<double>(schedule.chunks.total());
    const int64_t pieces = schedule.chunks.total() * segment_count;
    const int64_t unit_bytes = is_padded ? padding_unit_bytes(schedule, segment_count) : 1;
    cuts_evenly_ = unit_bytes * static_cast<int64_t>(buffers) % pieces == 0;
  }

  bool cuts_evenly() const { return cuts_evenly_; }

  // Adds the bytes of all messages to the links that carry them, as first_ps and ps_per_byte.
  void add_loads(std::vector<Chain>& loads) const {
    for (const Transfer& transfer : schedule_.transfers) {
      check_interruption();
      for (const LinkId link : schedule_.routes[transfer.route]) {
        Chain& load = loads[link.index()];
        load = load.then(bytes_on(transfer, link, 1));
      }
    }
  }

  // The chain that no other is more than.
  template <typename More>
  Chain last(More is_more) const {
    const RankOfNode rank_of(schedule_.participants);
    const int64_t chunks = schedule_.chunks.count();
    // By rank and chunk; of an all_to_all's few are somewhere.
    std::unordered_map<int64_t, Chain> there;
    std::vector<std::pair<int64_t, Chain>> arrivals;  // of the step
    Chain last;
    const auto end_step = [&] {
      for (const auto& [slot, chain] : std::exchange(arrivals, {})) {
        Chain& before = there[slot];
        before = is_more(chain, before) ? chain : before;
        last = is_more(chain, last) ? chain : last;
      }
    };
    int32_t step = 0;
    for (const Transfer& transfer : schedule_.transfers) {
      check_interruption();
      if (transfer.step != step) {
        end_step();
        step = transfer.step;
      }
      const int32_t source = rank_of(transfer.source);
      const int32_t target = rank_of(transfer.target);
      const Chain own = message(transfer);
      for (int32_t chunk = transfer.first_chunk;
           chunk < transfer.first_chunk + transfer.chunk_count; ++chunk) {
        // A switch holds nothing: what leaves it starts anew, which is no later than it does.
        const auto known = source < 0 ? there.end() : there.find(source * chunks + chunk);
        const Chain before = known == there.end() ? Chain{} : known->second;
        if (target >= 0) {
          arrivals.emplace_back(target * chunks + chunk, before.then(own));
        }
      }
    }
    end_step();
    return last;
  }

 private:
  // What a part of the transfer's bytes takes on a link.
  Chain bytes_on(const Transfer& transfer, LinkId link, int32_t parts) const {
    const auto weight = static_cast<double>(
        schedule_.chunks.cumulative(transfer.first_chunk + transfer.chunk_count) -
        schedule_.chunks.cumulative(transfer.first_chunk));
    const double byte_ps = static_cast<double>(kPicosecondsPerSecond) /
                           static_cast<double>(topology_.link(link).bandwidth_bytes_per_s);
    const double lost_bytes = cuts_evenly_ ? 0 : transfer.chunk_count;
    return {-lost_bytes * byte_ps, weight * buffers_per_weight_ / parts * byte_ps};
  }

  // A segment of the transfer, alone on its links.
  Chain message(const Transfer& transfer) const {
    Chain slowest;
    double latency_ps = 0;
    for (const LinkId link : schedule_.routes[transfer.route]) {
      const Chain bytes = bytes_on(transfer, link, segment_count_);
      slowest = is_fuller(bytes, slowest) ? bytes : slowest;
      latency_ps += static_cast<double>(topology_.hop_latency_ps(link));
    }
    if (topology_.node(transfer.source).kind != NodeKind::kSwitch) {
      latency_ps += static_cast<double>(topology_.node(transfer.source).overhead_ps);
    }
    return slowest.then({latency_ps, 0});
  }

  const Schedule& schedule_;
  const Topology& topology_;
  const int32_t segment_count_;
  double buffers_per_weight_ = 0;
  bool cuts_evenly_ = true;
};

}  // namespace

Result<LeastTime> LeastTime::of(const Topology& topology,
                                std::span<const std::shared_ptr<const Schedule>> schedules,
                                int32_t segment_count, bool is_padded) {
  LeastTime least;
  std::vector<Chain> loads(topology.links().size());
  for (const auto& schedule : schedules) {
    PLEACH_ASSIGN(whole, expand(*schedule, &topology));
    PLEACH_TRY(fill_routes(whole, topology));
    const Messages messages(whole, topology, segment_count, is_padded);
    messages.add_loads(loads);
    for (const Chain& chain : {messages.last(is_longer), messages.last(is_fuller)}) {
      least.lines_.push_back({chain.first_ps, chain.ps_per_byte});
    }
    least.cuts_evenly_ = least.cuts_evenly_ && messages.cuts_evenly();
  }
  const auto busiest = std::ranges::max_element(loads, {}, &Chain::ps_per_byte);
  if (busiest != loads.end()) {
    least.lines_.push_back({busiest->first_ps, busiest->ps_per_byte});
  }
  return least;
}

int64_t LeastTime::time_ps(int64_t size_bytes) const {
  double most_ps = 0;
  for (const Line& line : lines_) {
    const double time_ps = line.first_ps + line.ps_per_byte * static_cast<double>(size_bytes);
    most_ps = std::max(most_ps, time_ps * (1 - kSlack));
  }
  const bool is_long = most_ps >= static_cast<double>(kLongestPs);
  return size_bytes <= 0 ? 0 : is_long ? kLongestPs : static_cast<int64_t>(std::floor(most_ps));
}

double LeastTime::ps_per_byte() const {
  double most = 0;
  for (const Line& line : lines_) {
    most = std::max(most, line.ps_per_byte * (1 - kSlack));
  }
  return cuts_evenly_ ? most : 0;
}

}  // namespace pleach
