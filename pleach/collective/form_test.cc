#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/cursor.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::Move;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

// Well-formed where `error` is empty, else refused with a line that contains it.
void expect_form(const std::string& name, const Schedule& schedule, const Topology* topology,
                 const std::string& error) {
  const std::string lines = joined(check_form(schedule, topology));
  if (error.empty()) {
    EXPECT_EQ(lines, "") << name;
  } else {
    EXPECT_NE(lines.find(error), std::string::npos) << name << ": " << lines;
  }
}

// A hop that names the passes of what it leaves and enters.
Transfer pass(int32_t source, int32_t source_pass, int32_t target, int32_t target_pass,
              TransferOp op = kReduce) {
  return {.source = NodeId{source},
          .target = NodeId{target},
          .op = op,
          .source_pass = static_cast<uint16_t>(source_pass),
          .target_pass = static_cast<uint16_t>(target_pass)};
}

Transfer move(int32_t chunk, int32_t source, int32_t target, TransferOp op, int32_t step = 0) {
  return {.first_chunk = chunk,
          .source = NodeId{source},
          .target = NodeId{target},
          .step = step,
          .op = op};
}

// All ranks exchange in one step: 3 ranks, 3 chunks.
Schedule exchange() {
  return make_schedule({.rank_count = 3, .chunk_count = 3}, {{0, 3, 0, 1, kReduce, 0},
                                                             {0, 2, 1, 0, kReduce, 0},
                                                             {1, 2, 2, 0, kReduce, 0},
                                                             {0, 3, 0, 2, kCopy, 1}});
}

struct Mutation {
  std::string name;
  std::function<void(Schedule&)> change;
  std::string error;
};

TEST(Form, ChecksRanges) {
  const std::vector<Mutation> cases = {
      {"exchange", [](Schedule&) {}, ""},
      {"no transfers", [](Schedule& s) { s.transfers.clear(); }, ""},
      {"empty phase",
       [](Schedule& s) {
         s.phase_steps = {0, 2, 0};
       },
       ""},
      {"no participants", [](Schedule& s) { s.participants.clear(); }, "participants: 0 of them"},
      {"twice", [](Schedule& s) { s.participants[2] = NodeId{0}; },
       "participants[2]: node 0 is already rank 0"},
      {"negative node", [](Schedule& s) { s.participants[1] = NodeId{-1}; },
       "participants[1]: node -1"},
      {"huge node", [](Schedule& s) { s.participants[1] = NodeId{INT32_MAX}; },
       "participants[1]: node 2147483647"},
      {"root of none", [](Schedule& s) { s.root = Rank{1}; }, "root: all_reduce has none, got 1"},
      {"root", [](Schedule& s) { s.collective = CollectiveKind::kReduce, s.root = Rank{3}; },
       "root: 3 is not a rank in 0..2"},
      {"period", [](Schedule& s) { s.period = 0; }, "period: 0"},
      {"huge period", [](Schedule& s) { s.period = INT32_MAX; }, "period: 2147483647"},
      {"negative phase",
       [](Schedule& s) {
         s.phase_steps = {3, -1};
       },
       "phase_steps[1]: -1 steps"},
      {"huge phase",
       [](Schedule& s) {
         s.phase_steps = {INT32_MAX, INT32_MAX};
       },
       "phase_steps[0]: 2147483647 steps"},
      {"chunks", [](Schedule& s) { s.chunks = ChunkGrid::uniform(INT32_MAX); },
       "chunk_count: 2147483647"},
      {"first chunk", [](Schedule& s) { s.transfers[3].first_chunk = -1; },
       "transfers[3] (chunks [-1, 2), node 0 -> node 2, copy, step 1): the chunks are not within "
       "the schedule's 3"},
      {"chunk interval", [](Schedule& s) { s.transfers[3].first_chunk = 1; }, "[1, 4)"},
      {"chunk overflow",
       [](Schedule& s) { s.transfers[3].first_chunk = s.transfers[3].chunk_count = INT32_MAX; },
       "[2147483647, 4294967294)"},
      {"no chunks", [](Schedule& s) { s.transfers[3].chunk_count = 0; }, "[0, 0)"},
      {"self", [](Schedule& s) { s.transfers[3].target = NodeId{0}; },
       "source and target are the same node"},
      {"node", [](Schedule& s) { s.transfers[3].target = NodeId{1 << 20}; },
       "node 1048576 is not in 0..1048575"},
      {"step", [](Schedule& s) { s.transfers[3].step = 2; }, "the phases have 2 steps"},
      {"negative step", [](Schedule& s) { s.transfers[0].step = -5; }, "step -5"},
      {"route", [](Schedule& s) { s.transfers[3].route = 0; }, "route 0 of 0"},
      {"negative route", [](Schedule& s) { s.transfers[3].route = -2; }, "route -2 of 0"},
      {"link", [](Schedule& s) { s.routes.add(std::vector<LinkId>{LinkId{-7}}); },
       "routes[0]: link -7"},
      {"empty route", [](Schedule& s) { s.routes.add({}); }, "routes[0]: has no links"},
      {"order", [](Schedule& s) { std::swap(s.transfers[2], s.transfers[3]); },
       "transfers[3] (chunks [1, 3), node 2 -> node 0, reduce, step 0): out of order"},
      {"text", [](Schedule& s) { s.provenance.options = "\xff"; }, "'\\xff' is malformed UTF-8"},
      {"number", [](Schedule& s) { s.provenance.certificate.alpha_s = 1.0 / 0.0; }, "not finite"},
  };
  for (const Mutation& test : cases) {
    Schedule schedule = exchange();
    test.change(schedule);
    expect_form(test.name, schedule, nullptr, test.error);
  }
}

TEST(Form, ChecksArrivals) {
  struct Case {
    std::string name;
    std::vector<Move> moves;
    std::string error;
  };
  const std::vector<Case> cases = {
      {"reduces of two sources", {{0, 2, 1, 0, kReduce}, {1, 2, 2, 0, kReduce}}, ""},
      {"copies of other chunks", {{0, 1, 1, 0, kCopy}, {1, 2, 2, 0, kCopy}}, ""},
      {"copies of other steps", {{0, 1, 1, 0, kCopy, 0}, {0, 1, 2, 0, kCopy, 1}}, ""},
      {"two copies",
       {{0, 2, 1, 0, kCopy}, {1, 2, 2, 0, kCopy}},
       "transfers[1] (chunks [1, 3), node 2 -> node 0, copy, step 0): shares chunk 1 with "
       "transfers[0], which arrives in the same step, and not both reduce"},
      {"copy in reduce", {{0, 3, 1, 0, kReduce}, {1, 1, 2, 0, kCopy}}, "shares chunk 1"},
      {"reduce in copy", {{0, 3, 1, 0, kCopy}, {2, 1, 2, 0, kReduce}}, "shares chunk 2"},
      {"copy hidden by a wide reduce",
       {{0, 1, 3, 0, kReduce}, {0, 3, 1, 0, kReduce}, {2, 1, 2, 0, kCopy}},
       "shares chunk 2"},
      {"one source twice",
       {{0, 2, 1, 0, kReduce}, {1, 2, 1, 0, kReduce}},
       "shares chunk 1 and source rank 1 with transfers[0]"},
      {"one source thrice",
       {{0, 3, 1, 0, kReduce}, {0, 1, 1, 0, kReduce}, {2, 1, 1, 0, kReduce}},
       "shares chunk 2 and source rank 1"},
  };
  for (const Case& test : cases) {
    expect_form(test.name, make_schedule({.rank_count = 4, .chunk_count = 3}, test.moves), nullptr,
                test.error);
  }
}

TEST(Form, ChecksTheGridOfShards) {
  struct Case {
    CollectiveKind kind;
    std::vector<int64_t> weights;
    std::string error;
  };
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce, {1, 7}, ""},
      {CollectiveKind::kReduceScatter, {1, 1, 1}, ""},
      {CollectiveKind::kReduceScatter, {1, 2, 3, 2, 1}, ""},
      {CollectiveKind::kAllGather, {1, 1}, "2 of them cannot hold the 3 parts"},
      {CollectiveKind::kAllGather, {1, 1, 1, 1}, "part 1 of 3 of all_gather"},
      {CollectiveKind::kReduceScatter, {2, 1, 3}, "part 2 of 3 of reduce_scatter"},
      {CollectiveKind::kAllToAll, {1, 1, 1, 1, 1, 1, 1, 1, 1}, ""},
      {CollectiveKind::kAllToAll, {1, 1, 1}, "3 of them cannot hold the 9 parts"},
      {CollectiveKind::kAllToAll, {2, 1, 1, 1, 1, 1, 1, 1, 0x7fff}, "part 1 of 9 of all_to_all"},
  };
  for (const Case& test : cases) {
    Schedule schedule = make_schedule({.collective = test.kind, .rank_count = 3}, {});
    schedule.chunks = ChunkGrid::weighted(test.weights);
    expect_form(std::string(to_text(test.kind)), schedule, nullptr, test.error);
  }
  Schedule schedule = make_schedule({.collective = CollectiveKind::kAllToAll, .rank_count = 3}, {});
  schedule.chunks = ChunkGrid::uniform(18);
  expect_form("uniform", schedule, nullptr, "");
  schedule.chunks = ChunkGrid::uniform(12);
  expect_form("uneven", schedule, nullptr, "part 1 of 9");
}

// Ranks 0 to 3; switches 10 and 11 reduce and multicast, 12 neither; 13 is a rank outside.
Topology switches() {
  TopologyBuilder builder("switches");
  for (int32_t i = 0; i < 14; ++i) {
    const bool is_switch = i >= 10 && i < 13;
    EXPECT_TRUE(builder.add_node({.name = "n" + std::to_string(i),
                                  .kind = is_switch ? NodeKind::kSwitch : NodeKind::kRank,
                                  .reduces = i == 10 || i == 11,
                                  .multicasts = i == 10 || i == 11}));
  }
  for (int32_t i = 0; i < 14; ++i) {
    for (int32_t j = 10; j < 13; ++j) {
      if (i != j) {
        EXPECT_TRUE(builder.add_link({NodeId{i}, NodeId{j}, 1, 0}));
        EXPECT_TRUE(builder.add_link({NodeId{j}, NodeId{i}, 1, 0}));
      }
    }
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return *topology;
}

// Of one stream's links none carries two things: what two ranks send is not the same, and what
// comes back to a switch in a later pass is another sum; what a switch hands out may share a way.
TEST(Form, ChecksThatAStreamOccupiesALinkOnce) {
  const Topology topology = switches();
  const auto link = [&](int32_t source, int32_t target) {
    for (const LinkId out : topology.links_out(NodeId{source})) {
      if (topology.link(out).target == NodeId{target}) {
        return out;
      }
    }
    return LinkId{};
  };
  struct Way {
    Transfer hop;
    std::vector<LinkId> route;
  };
  const struct {
    std::string name;
    std::vector<Way> ways;
    std::string error;
  } cases[] = {
      {"two ranks by one cable to where they meet",
       {{pass(0, 0, 10, 0), {link(0, 12), link(12, 10)}},
        {pass(1, 0, 10, 0), {link(1, 12), link(12, 10)}},
        {pass(10, 0, 2, 0), {link(10, 2)}}},
       "its stream occupies link"},
      {"handed out over one cable",
       {{pass(0, 0, 10, 0), {link(0, 10)}},
        {pass(10, 0, 1, 0), {link(10, 11), link(11, 1)}},
        {pass(10, 0, 2, 0), {link(10, 11), link(11, 2)}}},
       ""},
      {"round and round",
       {{pass(0, 0, 10, 0), {link(0, 10)}},
        {pass(10, 0, 11, 0), {link(10, 11)}},
        {pass(11, 0, 10, 1), {link(11, 10)}},
        {pass(10, 1, 11, 1), {link(10, 11)}},
        {pass(11, 1, 1, 0), {link(11, 1)}}},
       "its stream occupies link"},
  };
  for (const auto& [name, ways, error] : cases) {
    Schedule schedule = make_schedule({.rank_count = 4, .chunk_count = 2}, {});
    schedule.phase_steps = {2};
    for (const auto& [hop, route] : ways) {
      schedule.transfers.push_back(hop);
      schedule.transfers.back().route = schedule.routes.add(route);
    }
    sort_transfers(schedule);
    expect_form(name, schedule, &topology, error);
  }
}

TEST(Form, ChecksStreamsThroughSwitches) {
  struct Case {
    std::string name;
    std::vector<Transfer> hops;
    std::string error;                 // by itself
    std::string topology_error = "-";  // with the topology; "-": the same
  };
  const Topology topology = switches();
  const std::vector<Case> cases = {
      {"through", {move(0, 0, 10, kCopy), move(0, 10, 1, kReduce)}, ""},
      {"reduction",
       {move(0, 0, 10, kReduce), move(0, 1, 10, kReduce), move(0, 10, 0, kCopy),
        move(0, 10, 1, kCopy)},
       ""},
      {"two trees",
       {move(0, 0, 10, kReduce), move(0, 1, 10, kReduce), move(0, 10, 11, kCopy),
        move(0, 2, 11, kReduce), move(0, 11, 3, kReduce)},
       "of 2 arrivals at switch 11 each must reduce"},
      {"tree",
       {move(0, 0, 10, kReduce), move(0, 1, 10, kReduce), move(0, 10, 11, kReduce),
        move(0, 2, 11, kReduce), move(0, 11, 3, kReduce), move(0, 11, 2, kReduce)},
       ""},
      {"other chunks",
       {move(0, 0, 10, kCopy), move(0, 10, 1, kCopy), move(1, 2, 10, kCopy), move(1, 10, 3, kCopy)},
       ""},
      {"ends", {move(0, 0, 10, kCopy)}, "switch 10 holds nothing: the step has 1 arrivals and 0"},
      {"begins", {move(0, 10, 0, kCopy)}, "switch 10 holds nothing"},
      {"later", {move(0, 0, 10, kCopy), move(0, 10, 1, kCopy, 1)}, "switch 10 holds nothing"},
      {"wider",
       {{.first_chunk = 0, .chunk_count = 2, .source = NodeId{0}, .target = NodeId{10}},
        move(0, 10, 1, kCopy),
        move(1, 10, 2, kCopy)},
       "at switch 10 its chunks overlap others of the step, but are not the same"},
      {"copies",
       {move(0, 0, 10, kCopy), move(0, 1, 10, kReduce), move(0, 10, 2, kCopy)},
       "of 2 arrivals at switch 10 each must reduce"},
      {"mixed ends",
       {move(0, 0, 10, kCopy), move(0, 10, 1, kCopy), move(0, 10, 2, kReduce)},
       "the last hops of one stream differ in their op"},
      {"twice a target",
       {move(0, 0, 10, kCopy), move(0, 10, 11, kCopy), move(0, 10, 1, kCopy),
        move(0, 11, 1, kCopy)},
       "rank 1 is twice a target of one stream"},
      {"twice a source",
       {move(0, 0, 10, kReduce), move(0, 0, 11, kCopy), move(0, 10, 1, kCopy),
        move(0, 11, 10, kReduce)},
       "rank 0 is twice a source of one stream"},
      {"loop",
       {move(0, 0, 10, kReduce), move(0, 10, 11, kReduce), move(0, 10, 1, kCopy),
        move(0, 11, 10, kReduce)},
       "the switches of its stream form a loop"},
      {"no source", {move(0, 10, 11, kCopy), move(0, 11, 10, kCopy)}, "form a loop"},
      {"half the sources",
       {move(0, 0, 10, kCopy), move(0, 10, 11, kReduce), move(0, 10, 2, kCopy),
        move(0, 1, 11, kReduce), move(0, 11, 3, kCopy)},
       "switch 11 joins what a switch before it has multiplied"},
      {"stream and copy",
       {move(0, 0, 10, kCopy), move(0, 10, 1, kCopy), move(0, 2, 1, kCopy)},
       "shares chunk 0"},
      {"stream and reduce",
       {move(0, 0, 10, kReduce), move(0, 10, 1, kReduce), move(0, 2, 10, kReduce),
        move(0, 3, 1, kReduce)},
       ""},
      {"stream and its smallest source",
       {move(0, 0, 10, kReduce), move(0, 2, 10, kReduce), move(0, 10, 1, kReduce),
        move(0, 0, 1, kReduce)},
       "shares chunk 0 and source rank 0"},
      {"up and down",
       {pass(0, 0, 10, 0), pass(1, 0, 10, 0), pass(10, 0, 11, 0), pass(2, 0, 11, 0),
        pass(11, 0, 10, 1), pass(11, 0, 2, 0), pass(10, 1, 0, 0), pass(10, 1, 1, 0)},
       ""},
      {"up and down in one pass",
       {pass(0, 0, 10, 0), pass(1, 0, 10, 0), pass(10, 0, 11, 0), pass(11, 0, 10, 0),
        pass(10, 0, 0, 0), pass(10, 0, 1, 0)},
       "the switches of its stream form a loop"},
      {"down before up",
       {pass(0, 0, 10, 1), pass(10, 1, 11, 0), pass(11, 0, 10, 0), pass(10, 0, 1, 0)},
       ""},
      {"round and round",
       {pass(0, 0, 10, 0), pass(10, 0, 11, 0), pass(11, 0, 10, 1), pass(10, 1, 11, 1),
        pass(11, 1, 1, 0)},
       ""},
      {"two of equal chunks",
       {pass(0, 0, 10, 0), pass(10, 0, 1, 0), pass(2, 0, 10, 1), pass(10, 1, 3, 0)},
       ""},
      {"two of equal chunks to one",
       {pass(0, 0, 10, 0), pass(10, 0, 1, 0), pass(2, 0, 10, 1), pass(10, 1, 1, 0)},
       ""},
      {"a source twice to one",
       {pass(0, 0, 10, 0), pass(10, 0, 1, 0), pass(0, 0, 10, 1), pass(10, 1, 1, 0)},
       "shares chunk 0 and source rank 0"},
      {"two of wider chunks",
       {{.first_chunk = 0, .chunk_count = 2, .source = NodeId{0}, .target = NodeId{10}},
        {.first_chunk = 0, .chunk_count = 2, .source = NodeId{10}, .target = NodeId{1}},
        pass(2, 0, 10, 1),
        pass(10, 1, 3, 0)},
       ""},
      {"into a pass that nothing leaves",
       {pass(0, 0, 10, 1), pass(10, 0, 1, 0)},
       "switch 10 holds nothing: the step has 0 arrivals and 1 departures"},
      {"multiplied and joined in a later pass",
       {pass(0, 0, 10, 0), pass(10, 0, 11, 0), pass(10, 0, 10 + 2, 0), pass(11, 0, 10, 1),
        pass(12, 0, 10, 1), pass(10, 1, 1, 0)},
       "switch 10 joins what a switch before it has multiplied"},
      {"a rank's pass",
       {pass(0, 0, 10, 0), pass(10, 0, 1, 1)},
       "transfers[1] (chunks [0, 1), node 10 -> node 1 (pass 1), reduce, step 0): node 1 is a "
       "participant, which has no passes"},
      {"plain switch", {move(0, 0, 12, kCopy), move(0, 12, 1, kCopy)}, ""},
      {"plain switch reduces",
       {move(0, 0, 12, kReduce), move(0, 2, 12, kReduce), move(0, 12, 1, kCopy)},
       "",
       "switch 12 (n12) does not reduce"},
      {"plain switch multicasts",
       {move(0, 0, 12, kReduce), move(0, 12, 2, kCopy), move(0, 12, 1, kCopy)},
       "",
       "switch 12 (n12) does not multicast"},
      {"no switch",
       {move(0, 0, 13, kCopy), move(0, 13, 1, kCopy)},
       "",
       "node 13 (n13) is neither a participant nor a switch"},
      {"no node",
       {move(0, 0, 14, kCopy), move(0, 14, 1, kCopy)},
       "",
       "the topology has 14 nodes, not node 14"},
  };
  for (const Case& test : cases) {
    Schedule schedule = make_schedule({.rank_count = 4, .chunk_count = 2}, {});
    schedule.phase_steps = {2};
    schedule.transfers = test.hops;
    sort_transfers(schedule);
    expect_form(test.name, schedule, nullptr, test.error);
    expect_form(test.name + " on the topology", schedule, &topology,
                test.topology_error == "-" ? test.error : test.topology_error);
  }
}

TEST(Form, ChecksParticipantsOnATopology) {
  const Topology topology = switches();
  Schedule schedule = make_schedule({.rank_count = 2, .participants = {0, 10}}, {});
  expect_form("switch", schedule, &topology, "participants[1]: node 10 (n10) is no rank");
  schedule.participants[1] = NodeId{99};
  expect_form("unknown", schedule, &topology, "participants[1]: the topology has 14 nodes");
  expect_form("no topology", schedule, nullptr, "");
}

// 0 - 1 - 2 - 3 in a row; links 2i: i -> i+1, 2i+1: back; node 2 does not forward.
TEST(Form, ChecksRoutes) {
  TopologyBuilder builder("row");
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(builder.add_node({.name = "n" + std::to_string(i), .forwards = i != 2}));
  }
  for (int32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(builder.add_cable({NodeId{i}, NodeId{i + 1}, 1, 0}));
  }
  const auto topology = std::move(builder).build();
  ASSERT_FALSE(topology) << "node 2 cuts the row";
  TopologyBuilder ring("ring");
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.add_node({.name = "n" + std::to_string(i), .forwards = i != 2}));
  }
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.add_cable({NodeId{i}, NodeId{(i + 1) % 4}, 1, 0}));
  }
  const auto built = std::move(ring).build();
  ASSERT_TRUE(built);
  struct Case {
    std::vector<int32_t> links;
    int32_t source, target;
    std::string error;
  };
  const std::vector<Case> cases = {
      {{0}, 0, 1, ""},
      {{1}, 1, 0, ""},
      {{0, 2}, 0, 2, ""},
      {{6, 0}, 3, 1, ""},
      {{0}, 0, 2, "route 0 leads from node 0 to node 1"},
      {{0}, 1, 0, "route 0 leads from node 0 to node 1"},
      {{2, 4}, 1, 3, "routes[0]: node 2 (n2) does not forward"},
      {{0, 4}, 0, 3, "routes[0]: link 4 does not begin where link 0 ends"},
      {{0, 1}, 0, 1, "routes[0]: it visits node 0 twice"},
      {{8}, 0, 1, "routes[0]: the topology has 8 links, not link 8"},
  };
  for (const Case& test : cases) {
    Schedule schedule = make_schedule({.rank_count = 4}, {{0, 1, test.source, test.target}});
    std::vector<LinkId> links;
    for (const int32_t link : test.links) {
      links.push_back(LinkId{link});
    }
    schedule.transfers[0].route = schedule.routes.add(links);
    expect_form(testing::PrintToString(test.links), schedule, &*built, test.error);
  }
}

TEST(Form, ChecksTheSymmetricForm) {
  const auto ring = [](CollectiveKind kind, int32_t chunk_count) {
    Schedule schedule =
        make_schedule({.collective = kind, .rank_count = 4, .chunk_count = chunk_count},
                      {{0, 1, 0, 1, kReduce, 0}, {0, 1, 1, 2, kReduce, 1}});
    schedule.symmetry = Symmetry{{2, 2}};
    return schedule;
  };
  const std::vector<Mutation> cases = {
      {"ring", [](Schedule&) {}, ""},
      {"order",
       [](Schedule& s) {
         s.symmetry = Symmetry{{2, 3}};
       },
       "the dimensions multiply to 6, not to 4 participants"},
      {"zero",
       [](Schedule& s) {
         s.symmetry = Symmetry{{4, 0}};
       },
       "symmetry[1]: size 0"},
      {"huge",
       [](Schedule& s) {
         s.symmetry = Symmetry{{INT32_MAX, INT32_MAX}};
       },
       "symmetry[0]"},
      {"negative",
       [](Schedule& s) {
         s.symmetry = Symmetry{{-2, -2}};
       },
       "symmetry[0]: size -2"},
      {"root", [](Schedule& s) { s.collective = CollectiveKind::kBroadcast; },
       "broadcast has a root, so no symmetry"},
      {"count", [](Schedule& s) { s.chunks = ChunkGrid::uniform(6); },
       "the symmetric form needs a multiple of 4, got 6"},
      {"weights",
       [](Schedule& s) {
         s.chunks = ChunkGrid::weighted({1, 2, 1, 2, 1, 2, 1, 3});
       },
       "chunk 7 has weight 3, its representative 1 has 2"},
      {"equal blocks",
       [](Schedule& s) {
         s.chunks = ChunkGrid::weighted({1, 2, 1, 2, 1, 2, 1, 2});
       },
       ""},
      {"representative", [](Schedule& s) { s.transfers[1].first_chunk = 2; },
       "the representative chunks are [0, 2)"},
      {"outside", [](Schedule& s) { s.transfers[1].target = NodeId{9}; },
       "no nodes but participants"},
      {"arrivals",
       [](Schedule& s) {
         s.transfers[1] = {.source = NodeId{2}, .target = NodeId{1}, .op = kReduce};
       },
       "the symmetric form allows one"},
  };
  for (const Mutation& test : cases) {
    Schedule schedule = ring(CollectiveKind::kAllReduce, 8);
    test.change(schedule);
    expect_form(test.name, schedule, nullptr, test.error);
  }
  Schedule schedule = ring(CollectiveKind::kAllToAll, 32);
  expect_form("all_to_all", schedule, nullptr, "");
  schedule.transfers[0].first_chunk = 1;
  schedule.transfers[0].chunk_count = 2;
  sort_transfers(schedule);
  expect_form("block", schedule, nullptr, "the chunks leave their block of 2");
  // All parts begin at a chunk, and translates weigh the same; but the parts of source 0 have 2 and
  // 4 chunks, those of source 1 have 4 and 2.
  const std::vector<Move> moves = {{0, 1, 0, 1, kCopy, 0}, {0, 1, 0, 1, kReduce, 1},
                                   {2, 1, 0, 1, kCopy, 0}, {3, 1, 0, 1, kCopy, 0},
                                   {4, 1, 0, 1, kCopy, 0}, {5, 1, 0, 1, kCopy, 0}};
  schedule = make_schedule({.collective = CollectiveKind::kAllToAll, .rank_count = 2}, moves);
  schedule.chunks = ChunkGrid::weighted({2, 4, 2, 1, 1, 2, 1, 1, 2, 2, 4, 2});
  expect_form("parts without symmetry", schedule, nullptr, "");
  schedule.symmetry = Symmetry{{2}};
  expect_form("parts", schedule, nullptr, "part 1 of 4 of all_to_all to begin at chunk 3");
  TopologyBuilder builder("row");
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(builder.add_node({.name = "n" + std::to_string(i), .forwards = true}));
  }
  for (int32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(builder.add_cable({NodeId{i}, NodeId{i + 1}, 1, 0}));
  }
  const auto row = std::move(builder).build();
  ASSERT_TRUE(row);
  expect_form("row", ring(CollectiveKind::kAllReduce, 8), &*row, "the topology lacks the symmetry");
}

TEST(Form, KeepsToTheLimit) {
  Schedule schedule = exchange();
  for (Transfer& transfer : schedule.transfers) {
    transfer.step = 100;
  }
  EXPECT_EQ(check_form(schedule, nullptr, 2).size(), 2u);
  EXPECT_EQ(check_form(schedule, nullptr).size(), 4u);
  schedule = exchange();
  schedule.chunks = ChunkGrid::uniform(kMaxScheduleChunks);
  for (Transfer& transfer : schedule.transfers) {
    transfer.first_chunk = 0;
    transfer.chunk_count = kMaxScheduleChunks;
  }
  expect_form("moves", schedule, nullptr, "more than 33554432 chunks are moved");
}

// Chunk 1 goes from rank 0 to rank 1 and back, again and again.
Schedule back_and_forth(int32_t rounds) {
  std::vector<Move> moves;
  for (int32_t round = 0; round < rounds; ++round) {
    moves.push_back({round % 2, 2, 0, 1, kCopy, 2 * round});
    moves.push_back({1, 1, 1, 0, kCopy, 2 * round + 1});
  }
  return make_schedule({.chunk_count = 3}, moves);
}

TEST(Form, CountsTheSendsAndArrivalsOfASlot) {
  const Schedule most = back_and_forth(kMaxSlotEvents);
  expect_form("most", most, nullptr, "");
  const Order order = Order::build(most);
  EXPECT_EQ(order.max_slot_events(), kMaxSlotEvents);
  EXPECT_EQ(Cursor(order, 1).commits(0, 0), 0);
  Schedule more = back_and_forth(kMaxSlotEvents + 1);
  EXPECT_EQ(check_form(more, nullptr).size(), 1u);
  expect_form("more", more, nullptr,
              "transfers[131070] (chunks [1, 3), node 0 -> node 1, copy, step 131070): chunk 1 "
              "leaves rank 0 more than 65535 times");
  for (Transfer& transfer : more.transfers) {  // from somewhere each time, to one rank
    const int32_t places[] = {0, 2, 3};
    transfer.source = NodeId{places[transfer.step % 3]};
    transfer.target = NodeId{1};
  }
  more.participants.insert(more.participants.end(), {NodeId{2}, NodeId{3}});
  expect_form("arrivals", more, nullptr, "chunk 1 arrives at rank 1 more than 65535 times");
}

// Whatever the numbers are, the answer is lines of text.
TEST(Form, SurvivesAnyNumbers) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const Topology topology = switches();
  Rng rng(kSeed);
  const auto number = [&rng]() -> int32_t {
    const std::vector<int32_t> wild = {INT32_MIN, -1, 0, 1, 2, 3, 10, 11, 1 << 20, INT32_MAX};
    return wild[rng.below(wild.size())];
  };
  int well_formed = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    Schedule schedule;
    schedule.collective = kAllCollectives[rng.below(kAllCollectives.size())];
    schedule.root = Rank{has_root(schedule.collective) ? number() : 0};
    const auto rank_count = static_cast<int32_t>(1 + rng.below(4));
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      schedule.participants.push_back(NodeId{rng.below(20) == 0 ? number() : rank});
    }
    schedule.chunks =
        ChunkGrid::uniform(rng.below(9) == 0 ? INT32_MAX : 4 * rank_count * rank_count);
    schedule.period = 1;
    schedule.phase_steps = {rng.below(9) == 0 ? number() : 3};
    if (rng.below(4) == 0) {
      schedule.symmetry = Symmetry{{rng.below(2) == 0 ? number() : rank_count}};
    }
    for (uint64_t links = rng.below(3); links > 0; --links) {
      schedule.routes.add(std::vector<LinkId>{LinkId{number()}, LinkId{number()}});
    }
    for (uint64_t transfers = rng.below(4); transfers > 0; --transfers) {
      const bool is_wild = rng.below(6) == 0;
      const auto value = [&](int32_t bound) {
        return is_wild ? number() : static_cast<int32_t>(rng.below(static_cast<uint64_t>(bound)));
      };
      schedule.transfers.push_back({value(2), 1, NodeId{value(12)}, NodeId{value(12)}, value(3),
                                    is_wild ? number() : kNoRoute,
                                    rng.below(2) == 0 ? kCopy : kReduce});
    }
    sort_transfers(schedule);
    well_formed += check_form(schedule, nullptr).empty() ? 1 : 0;
    check_form(schedule, &topology, 1);
  }
  EXPECT_GT(well_formed, 500);
}

}  // namespace
}  // namespace pleach
