#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/interfaces.h"

namespace pleach {
namespace {

constexpr FlowControl kPacket = FlowControl::kPacket, kMessage = FlowControl::kMessage;

// What has become of a message [cycles].
struct Times {
  int64_t taken = -1, complete = -1;
};

// Interfaces at one router, a cycle away, that all send to the last one.
class Bench {
 public:
  explicit Bench(const InterfaceShape& shape, int32_t interfaces = 2)
      : fabric_(fabric(interfaces)),
        hops_{static_cast<uint16_t>(interfaces - 1)},
        routers_(std::move(
            Routers::create(
                fabric_, {.vcs = 4,
                          .buffer = 318,
                          .room = static_cast<int32_t>(shape.packet_flits()) + shape.header_flits})
                .value())),
        interfaces_(*routers_, shape, interfaces) {}

  // In the cycle that begins next, before anything moves in the one after.
  void take(int32_t interface, int64_t bytes, int32_t tag, int64_t overhead_cycles = 0) {
    interfaces_.take({.interface = interface,
                      .bytes = bytes,
                      .hops = hops_,
                      .tag = tag,
                      .overhead_cycles = overhead_cycles},
                     now_);
  }
  // Goes on until nothing happens any more, from one cycle in which something does to the next.
  std::map<int32_t, Times>& run() {
    run_cycle(now_);
    while (true) {
      const int64_t next = std::min(routers_->next_cycle().value_or(INT64_MAX),
                                    interfaces_.next(now_ + 1).value_or(INT64_MAX));
      if (next == INT64_MAX) {
        return times_;
      }
      run_cycle(std::max(next, now_ + 1));
    }
  }
  bool is_free(int32_t interface) const { return interfaces_.is_free(interface); }

 private:
  static Fabric fabric(int32_t interfaces) {
    Fabric fabric{.router_count = 1, .interface_count = interfaces, .channels = {}};
    for (int32_t i = 0; i < interfaces; ++i) {
      fabric.channels.push_back({{-1, i}, {0, i}, 1, {}});
      fabric.channels.push_back({{0, i}, {-1, i}, 1, {}});
    }
    return fabric;
  }

  void run_cycle(int64_t cycle) {
    now_ = cycle;
    routers_->skip_to(cycle);
    interfaces_.move(cycle);
    for (const int32_t tag : interfaces_.taken()) {
      times_[tag].taken = cycle;
    }
    routers_->begin_cycle();
    for (const FlitDelivery& flit : routers_->delivered()) {
      if (!flit.tail) {
        continue;
      }
      if (const auto tag = interfaces_.complete(flit.packet)) {
        EXPECT_EQ(times_[*tag].complete, -1) << "twice";
        times_[*tag].complete = cycle;
      }
    }
    routers_->end_cycle();
    EXPECT_EQ(routers_->inconsistency(), "");
  }

  const Fabric fabric_;
  const std::vector<uint16_t> hops_;
  std::unique_ptr<Routers> routers_;
  Interfaces interfaces_;
  int64_t now_ = 0;
  std::map<int32_t, Times> times_;
};

TEST(InterfaceShape, CutsMessagesIntoSubMessagesAndFlits) {
  const struct {
    FlowControl flow_control;
    int64_t flit_bytes, packet_bytes;
    int32_t header_flits;
    int64_t bytes, sub_messages, flits, shortest;
  } cases[] = {
      {kPacket, 16, 256, 1, 0, 1, 1, 1},       {kPacket, 16, 256, 0, 0, 1, 1, 1},
      {kPacket, 16, 256, 1, 1, 1, 2, 2},       {kPacket, 16, 256, 1, 255, 1, 17, 17},
      {kPacket, 16, 256, 1, 256, 1, 17, 17},   {kPacket, 16, 256, 1, 257, 2, 19, 2},
      {kPacket, 16, 256, 0, 257, 2, 17, 1},    {kPacket, 16, 256, 1, 1024, 4, 68, 17},
      {kPacket, 16, 100, 2, 250, 3, 24, 6},    {kPacket, 1, 1, 0, 5, 5, 5, 1},
      {kMessage, 16, 256, 1, 0, 1, 1, 1},      {kMessage, 16, 256, 1, 257, 2, 18, 18},
      {kMessage, 16, 256, 1, 1024, 4, 65, 65}, {kMessage, 16, 100, 2, 250, 3, 20, 20},
      {kMessage, 16, 256, 0, 0, 1, 1, 1},
  };
  for (const auto& [flow_control, flit, packet, header, bytes, sub_messages, flits, shortest] :
       cases) {
    const InterfaceShape shape{.flow_control = flow_control,
                               .flit_bytes = flit,
                               .packet_bytes = packet,
                               .header_flits = header};
    EXPECT_EQ(shape.sub_messages(bytes), sub_messages) << bytes;
    EXPECT_EQ(shape.flits(bytes), flits) << bytes;
    EXPECT_EQ(shape.shortest_packet(bytes), shortest) << bytes;
    int64_t sum = 0;
    for (int64_t i = 0; i < sub_messages; ++i) {
      sum += shape.flits_of(bytes, i);
    }
    EXPECT_EQ(sum, flits) << bytes;
  }
}

// Taken in 0, a message's first flit leaves in 3, is at the router in 5, has its VC in 6, passes in
// 7 and has come out in 10; the others follow, a cycle each. Its last sub-message leaves the memory
// as many cycles after as there are. All of it an overhead later.
TEST(Interfaces, AMessageAloneTakesItsFlitsAndTenCycles) {
  for (const FlowControl flow_control : {kPacket, kMessage}) {
    for (const int32_t header_flits : {0, 1, 3}) {
      const InterfaceShape shape{.flow_control = flow_control, .header_flits = header_flits};
      for (const int64_t bytes : {0, 1, 255, 256, 257, 600, 5000}) {
        for (const int64_t overhead : {0, 1, 2, 97, 98, 99, 127, 128, 129, 1'000'000}) {
          Bench bench(shape);
          bench.take(0, bytes, 7, overhead);
          EXPECT_FALSE(bench.is_free(0));
          const Times times = bench.run().at(7);
          EXPECT_EQ(times.taken, overhead + shape.sub_messages(bytes)) << bytes << " B";
          EXPECT_EQ(times.complete, overhead + 9 + shape.flits(bytes)) << bytes << " B";
          EXPECT_TRUE(bench.is_free(0));
        }
      }
    }
  }
}

// Places in the first buffer, in the next, and in the queue, which a sub-message of 17 flits enters
// below so many: what is more waits for the wire.
TEST(Interfaces, TakeInWhatTheirBuffersHold) {
  const struct {
    InterfaceShape shape;
    int64_t held, first_leaves;  // sub-messages; the cycle in which one more can come in
  } cases[] = {
      {{.message_places = 2, .send_places = 1, .queue_flits = 1}, 4, 20},
      {{.message_places = 1, .send_places = 1, .queue_flits = 17}, 4, 21},
      {{.message_places = 3, .send_places = 2, .queue_flits = 18}, 7, 20},
  };
  for (const auto& [shape, held, first_leaves] : cases) {
    for (const int64_t count : {int64_t{1}, held, held + 1, held + 5}) {
      Bench bench(shape);
      bench.take(0, 256 * count, 1);
      const Times times = bench.run().at(1);
      // Each more comes in when 17 flits have left.
      EXPECT_EQ(times.taken, count <= held ? count : first_leaves + 17 * (count - held - 1))
          << held;
      EXPECT_EQ(times.complete, 9 + 17 * count);
    }
  }
  for (const int64_t count : {52, 53, 54}) {
    Bench bench({});
    bench.take(0, 256 * count, 1);
    EXPECT_EQ(bench.run().at(1).taken, count);
  }
}

// A queue of 80 flits into which a sub-message of 17 goes only where all of it has room.
TEST(Interfaces, MayKeepTheirQueueToItsPlaces) {
  for (const bool fills_queue : {true, false}) {
    Bench bench({.message_places = 1, .send_places = 1, .fills_queue = fills_queue});
    bench.take(0, 256 * 20, 1);
    const Times times = bench.run().at(1);
    // The 20th leaves the memory when the 18th goes into the queue: when fewer than 80 flits of
    // those before it are left, or no more than 63.
    EXPECT_EQ(times.taken, fills_queue ? 17 * 17 - 80 + 4 : 17 * 17 - 63 + 3);
    EXPECT_EQ(times.complete, 9 + 17 * 20) << "the wire never waits";
  }
  // One that is larger than the queue goes where nothing is.
  Bench narrow({.message_places = 1, .send_places = 1, .queue_flits = 1, .fills_queue = false});
  narrow.take(0, 256 * 3, 1);
  EXPECT_EQ(narrow.run().at(1).complete, 9 + 17 * 3);
}

// A free interface takes the next message while the last one is still on its way; the second waits
// for the wire, and an overhead is only its own.
TEST(Interfaces, MessagesFollowEachOther) {
  for (const FlowControl flow_control : {kPacket, kMessage}) {
    const InterfaceShape shape{.flow_control = flow_control};
    Bench bench(shape);
    bench.take(0, 1024, 1);
    EXPECT_EQ(bench.run().at(1).complete, 9 + shape.flits(1024));

    Bench two(shape, 3);
    two.take(0, 512, 1);
    two.take(1, 512, 2);  // they meet at the router, and take turns
    const auto& times = two.run();
    const int64_t last = std::max(times.at(1).complete, times.at(2).complete);
    EXPECT_EQ(last, 9 + 2 * shape.flits(512));
  }
}

}  // namespace
}  // namespace pleach
