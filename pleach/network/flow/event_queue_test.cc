#include "pleach/network/flow/event_queue.h"

#include <gtest/gtest.h>

#include <queue>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

// Whatever the bucket width and however events are spread, the order is that of a binary heap.
TEST(EventQueue, PopsInTheOrderOfAHeap) {
  for (const int shift : {0, 3, 10, 20, 40}) {
    for (const uint64_t spread : {1ULL, 50ULL, 5'000ULL, 1ULL << 22, 1ULL << 40}) {
      Rng rng(7);
      EventQueue queue(shift);
      std::priority_queue<Event, std::vector<Event>, std::greater<>> heap;
      int64_t now_ps = 0;
      for (int round = 0; round < 4'000; ++round) {
        const bool grow = heap.empty() || rng.below(100) < (round < 2'000 ? 60 : 40);
        if (grow) {
          const Event event{now_ps + static_cast<int64_t>(rng.below(spread)), rng.below(4)};
          queue.push(event);
          heap.push(event);
          continue;
        }
        ASSERT_EQ(queue.top(), heap.top()) << "shift " << shift << " spread " << spread;
        now_ps = heap.top().time_ps;
        queue.pop();
        heap.pop();
        ASSERT_EQ(queue.empty(), heap.empty());
      }
    }
  }
}

TEST(EventQueue, FindsEventsFarBeyondTheRing) {
  EventQueue queue(0);
  queue.push({1'000'000'000, 2});
  queue.push({5, 1});
  queue.push({4'100, 3});
  std::vector<uint64_t> tags;
  for (; !queue.empty(); queue.pop()) {
    tags.push_back(queue.top().tag);
  }
  EXPECT_EQ(tags, (std::vector<uint64_t>{1, 3, 2}));
}

}  // namespace
}  // namespace pleach
