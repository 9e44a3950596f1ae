// Messages meet their receives, whichever comes first.
#include "pleach/training/trace_messages.h"

#include <gtest/gtest.h>

#include <vector>

namespace pleach {
namespace {

TEST(TraceMessages, MeetTheirReceivesAndNoOthers) {
  const TraceMessage message = {.source = 0, .target = 1, .tag = 7, .iteration = 2};
  struct Case {
    const char* name;
    TraceMessage received;
    bool meets;
  };
  for (const Case& one : std::vector<Case>{
           {"the same", {0, 1, 7, 2}, true},
           {"of another worker", {2, 1, 7, 2}, false},
           {"by another worker", {0, 2, 7, 2}, false},
           {"of another tag", {0, 1, 8, 2}, false},
           {"of another iteration", {0, 1, 7, 3}, false},
       }) {
    SCOPED_TRACE(one.name);
    TraceMessages late;  // the receive
    EXPECT_EQ(late.arrive(message), std::nullopt);
    EXPECT_EQ(late.receive(one.received, 5), one.meets);
    const std::vector<TraceWait> wait = {{{one.received.target, 5}, one.received.source}};
    EXPECT_EQ(late.waits(), one.meets ? std::vector<TraceWait>() : wait);
    TraceMessages early;
    EXPECT_FALSE(early.receive(one.received, 5));
    EXPECT_EQ(early.waits(), wait);
    const auto met = early.arrive(message);
    EXPECT_EQ(met.has_value(), one.meets);
    EXPECT_EQ(early.waits(), one.meets ? std::vector<TraceWait>() : wait);
    if (met.has_value()) {
      EXPECT_EQ(*met, (WorkerNode{1, 5}));
    }
  }
}

TEST(TraceMessages, AreReceivedOnce) {
  TraceMessages messages;
  EXPECT_EQ(messages.arrive({.tag = 1}), std::nullopt);
  EXPECT_TRUE(messages.receive({.tag = 1}, 0));
  EXPECT_FALSE(messages.receive({.tag = 1}, 1));
  EXPECT_EQ(messages.arrive({.tag = 1}), (WorkerNode{0, 1}));
}

TEST(TraceMessages, AreSentInOrder) {
  TraceMessages messages;
  messages.send({1, 3});
  messages.send({0, 2});
  EXPECT_EQ(messages.take_sends(), (std::vector<WorkerNode>{{1, 3}, {0, 2}}));
  EXPECT_TRUE(messages.take_sends().empty());
}

}  // namespace
}  // namespace pleach
