// What needs no other rank: elements, requests, how they are cut, memory, flight records.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "cuts.h"
#include "elements.h"
#include "flight.h"
#include "memory.h"
#include "request.h"

namespace pleach_torch {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using std::vector;

TEST(Elements, AreMovedAsTheirTypeOrAsBytes) {
  struct Case {
    at::ScalarType type;
    pleach_type moved;
    int64_t per_element;
  };
  for (const Case& one :
       {Case{at::kFloat, PLEACH_FLOAT32, 1}, Case{at::kDouble, PLEACH_FLOAT64, 1},
        Case{at::kHalf, PLEACH_FLOAT16, 1}, Case{at::kBFloat16, PLEACH_BFLOAT16, 1},
        Case{at::kChar, PLEACH_INT8, 1}, Case{at::kByte, PLEACH_UINT8, 1},
        Case{at::kInt, PLEACH_INT32, 1}, Case{at::kLong, PLEACH_INT64, 1},
        Case{at::kBool, PLEACH_UINT8, 1}, Case{at::kShort, PLEACH_UINT8, 2},
        Case{at::kComplexFloat, PLEACH_UINT8, 8}, Case{at::kComplexDouble, PLEACH_UINT8, 16}}) {
    EXPECT_EQ(moved_elements(one.type).type, one.moved) << one.type;
    EXPECT_EQ(moved_elements(one.type).per_element, one.per_element) << one.type;
  }
}

TEST(Elements, AreReducedAsTheCInterfaceCan) {
  struct Case {
    at::ScalarType type;
    ReduceOp::RedOpType op;
    int reduction;  // -1: refused
    pleach_type as = PLEACH_UINT8;
    int64_t per_element = 1;
  };
  for (const Case& one : {
           Case{at::kFloat, ReduceOp::SUM, PLEACH_SUM, PLEACH_FLOAT32},
           Case{at::kHalf, ReduceOp::AVG, PLEACH_AVERAGE, PLEACH_FLOAT16},
           Case{at::kInt, ReduceOp::AVG, -1},
           Case{at::kInt, ReduceOp::BXOR, PLEACH_BITWISE_XOR, PLEACH_INT32},
           Case{at::kDouble, ReduceOp::BAND, -1},
           Case{at::kLong, ReduceOp::MIN, PLEACH_MIN, PLEACH_INT64},
           Case{at::kBool, ReduceOp::SUM, PLEACH_BITWISE_OR},
           Case{at::kBool, ReduceOp::PRODUCT, PLEACH_BITWISE_AND},
           Case{at::kBool, ReduceOp::MIN, PLEACH_BITWISE_AND},
           Case{at::kBool, ReduceOp::BXOR, PLEACH_BITWISE_XOR},
           Case{at::kBool, ReduceOp::AVG, -1},
           Case{at::kComplexFloat, ReduceOp::SUM, PLEACH_SUM, PLEACH_FLOAT32, 2},
           Case{at::kComplexDouble, ReduceOp::AVG, PLEACH_AVERAGE, PLEACH_FLOAT64, 2},
           Case{at::kComplexFloat, ReduceOp::PRODUCT, -1},
           Case{at::kShort, ReduceOp::SUM, -1},
       }) {
    SCOPED_TRACE(c10::str(one.type, " ", name_of(one.op)));
    if (one.reduction < 0) {
      EXPECT_THROW(reduction_of(one.type, one.op, "all_reduce"), c10::NotImplementedError);
      continue;
    }
    const Reduction found = reduction_of(one.type, one.op, "all_reduce");
    EXPECT_EQ(found.reduction, one.reduction);
    EXPECT_EQ(found.elements.type, one.as);
    EXPECT_EQ(found.elements.per_element, one.per_element);
  }
}

TEST(Elements, AreNotMultipliedBefore) {
  EXPECT_THROW(reduction_of(at::kFloat, c10d::makePreMulSum(2.0), "all_reduce"),
               c10::NotImplementedError);
}

Request request_of(pleach_collective collective, int rank, int rank_count) {
  Request request(OpType::UNKNOWN, "it", {rank, rank_count});
  request.asked.collective = collective;
  return request;
}

TEST(Requests, TakeTensorsWhereTheyStand) {
  const at::Tensor whole = at::zeros({12}, at::kFloat);
  Request request = request_of(PLEACH_ALL_GATHER, 1, 3);
  request.from = {whole.narrow(0, 4, 4)};
  request.to = {whole};
  request.asked.count = 4;
  request.place();
  EXPECT_EQ(request.asked.output, whole.data_ptr());
  EXPECT_EQ(request.asked.input, request.from[0].data_ptr()) << "it is its place in the whole";
  EXPECT_TRUE(request.task.landings.empty());
}

TEST(Requests, CopyInputsThatLieElsewhereInWhatIsWritten) {
  const at::Tensor whole = at::arange(12, at::kFloat);
  Request request = request_of(PLEACH_ALL_GATHER, 1, 3);
  request.from = {whole.narrow(0, 2, 4)};
  request.to = {whole};
  request.asked.count = 4;
  request.place();
  ASSERT_NE(request.asked.input, request.from[0].data_ptr());
  EXPECT_EQ(static_cast<const float*>(request.asked.input)[0], 2);
}

TEST(Requests, CopyStridedTensorsAndLandThem) {
  const at::Tensor strided = at::zeros({4, 6}, at::kFloat).t();
  Request request = request_of(PLEACH_ALL_REDUCE, 0, 2);
  request.from = request.to = {strided};
  request.is_one_buffer = true;
  request.asked.count = 24;
  request.place();
  EXPECT_EQ(request.asked.input, request.asked.output);
  EXPECT_NE(request.asked.output, strided.data_ptr());
  ASSERT_EQ(request.task.landings.size(), 1U);
  std::iota(static_cast<float*>(request.asked.output),
            static_cast<float*>(request.asked.output) + 24, 0.0F);
  land(request.task.landings[0]);
  EXPECT_EQ(strided[0][1].item<float>(), 1);
  EXPECT_EQ(strided[5][3].item<float>(), 23);
}

TEST(Requests, JoinNeighboursOfOneAllocation) {
  const at::Tensor memory = at::zeros({10}, at::kFloat);
  EXPECT_TRUE(
      are_adjacent({memory.narrow(0, 0, 3), memory.narrow(0, 3, 0), memory.narrow(0, 3, 7)}));
  EXPECT_FALSE(are_adjacent({memory.narrow(0, 0, 3), memory.narrow(0, 4, 6)}));
  EXPECT_FALSE(are_adjacent({memory.narrow(0, 3, 3), memory.narrow(0, 0, 3)}));
}

TEST(Requests, ScaleCountsToTheElementsThatTravel) {
  Request request = request_of(PLEACH_ALL_GATHER, 0, 2);
  request.from = {at::zeros({3}, at::kComplexFloat)};
  request.to = {at::zeros({8}, at::kComplexFloat)};
  request.counts = {3, 5};
  request.scale();
  EXPECT_EQ(request.asked.type, PLEACH_UINT8);
  EXPECT_EQ(request.counts, (vector<int64_t>{24, 40}));
  EXPECT_EQ(request.asked.counts, request.counts.data());
  EXPECT_EQ(request.asked.receive_counts, nullptr);
}

TEST(Requests, RefuseWhatNoCollectiveTakes) {
  const at::Tensor some = at::zeros({2}, at::kFloat);
  EXPECT_THROW(check_tensors("it", {}), c10::Error);
  EXPECT_THROW(check_tensors("it", {some, at::zeros({2}, at::kDouble)}), c10::Error);
  EXPECT_THROW(check_tensors("it", {some.to_sparse()}), c10::NotImplementedError);
  EXPECT_THROW(only("it", {some, some}), c10::Error);
}

// What the chunks of all ranks exchange has to be what the request does: simulated here by who
// reads and writes which element.
class Cuts : public ::testing::TestWithParam<uint64_t> {};

struct Shape {
  pleach_collective collective;
  int rank_count;
  vector<int64_t> counts;  // of each piece and rank
  int32_t piece_count;
};

Shape random_shape(std::mt19937_64& random) {
  constexpr std::array kKinds = {PLEACH_ALL_GATHER, PLEACH_REDUCE_SCATTER, PLEACH_GATHER,
                                 PLEACH_SCATTER};
  Shape shape = {kKinds[random() % kKinds.size()],
                 static_cast<int>(random() % 4 + 1),
                 {},
                 static_cast<int32_t>(random() % 4)};
  const bool is_even = random() % 2 == 0;
  for (int piece = 0; piece < std::max(1, shape.piece_count); ++piece) {
    const auto size = static_cast<int64_t>(random() % 20);
    for (int rank = 0; rank < shape.rank_count; ++rank) {
      shape.counts.push_back(is_even ? size : static_cast<int64_t>(random() % 20));
    }
  }
  return shape;
}

Request request_of(const Shape& shape, int rank) {
  Request request = request_of(shape.collective, rank, shape.rank_count);
  int64_t whole = 0;
  int64_t own = 0;
  for (size_t index = 0; index < shape.counts.size(); ++index) {
    whole += shape.counts[index];
    own += static_cast<int>(index) % shape.rank_count == rank ? shape.counts[index] : 0;
  }
  const bool gathers = shape.collective == PLEACH_ALL_GATHER || shape.collective == PLEACH_GATHER;
  request.from = {at::empty({gathers ? own : whole}, at::kFloat)};
  request.to = {at::empty({gathers ? whole : own}, at::kFloat)};
  request.counts = shape.counts;
  request.asked.piece_count = shape.piece_count;
  return request;
}

// The elements, in the order of a chunk.
vector<int64_t> listed(const vector<Interval>& intervals) {
  vector<int64_t> all;
  for (const Interval& interval : intervals) {
    for (int64_t index = 0; index < interval.size; ++index) {
      all.push_back(interval.begin + index);
    }
  }
  return all;
}

// Where rank's part of each piece stands in the whole, all behind each other.
vector<int64_t> places_of(const vector<int64_t>& counts, int rank_count, int rank) {
  vector<int64_t> places;
  int64_t begin = 0;
  for (size_t index = 0; index < counts.size(); ++index) {
    for (int64_t element = 0; element < counts[index]; ++element) {
      if (static_cast<int>(index) % rank_count == rank) {
        places.push_back(begin + element);
      }
    }
    begin += counts[index];
  }
  return places;
}

vector<int64_t> counts_of(const Cut& cut, int rank_count) {
  return cut.counts.empty() ? vector<int64_t>(rank_count, cut.count) : cut.counts;
}

TEST_P(Cuts, OfPartsMoveEveryElementOnceToItsPlace) {
  std::mt19937_64 random(GetParam());
  const Shape shape = random_shape(random);
  const auto most = static_cast<int64_t>(random() % 30 + 1);
  const bool gathers = shape.collective == PLEACH_ALL_GATHER || shape.collective == PLEACH_GATHER;
  const vector<Cut> first = cut_request(request_of(shape, 0), most);
  for (int rank = 0; rank < shape.rank_count; ++rank) {
    const Request request = request_of(shape, rank);
    const vector<Cut> cuts = cut_request(request, most);
    ASSERT_EQ(cuts.size(), first.size());
    const vector<int64_t> mine = places_of(shape.counts, shape.rank_count, rank);
    std::set<int64_t> seen_own;
    std::set<int64_t> seen_whole;
    for (size_t index = 0; index < cuts.size(); ++index) {
      const Cut& cut = cuts[index];
      EXPECT_EQ(cut.counts, first[index].counts) << "ranks ask for the same";
      EXPECT_EQ(cut.count, first[index].count);
      const vector<int64_t> counts = counts_of(cut, shape.rank_count);
      const vector<int64_t> whole = listed(gathers ? cut.to : cut.from);
      const vector<int64_t> own = listed(gathers ? cut.from : cut.to);
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
                static_cast<int64_t>(whole.size()));
      // By the C interface a rank's own part is at these places of the chunk's whole.
      const vector<int64_t> places = places_of(counts, shape.rank_count, rank);
      ASSERT_EQ(places.size(), own.size());
      for (size_t element = 0; element < own.size(); ++element) {
        EXPECT_EQ(whole[places[element]], mine[own[element]]);
      }
      EXPECT_LE(static_cast<int64_t>(whole.size()), std::max<int64_t>(most, shape.rank_count));
      seen_own.insert(own.begin(), own.end());
      seen_whole.insert(whole.begin(), whole.end());
    }
    EXPECT_EQ(seen_own.size(), mine.size());
    EXPECT_EQ(static_cast<int64_t>(seen_whole.size()),
              std::accumulate(shape.counts.begin(), shape.counts.end(), int64_t{0}));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Cuts, ::testing::Range(uint64_t{1}, uint64_t{301}));

TEST(CutsOfOneTensor, LieEndToEnd) {
  Request request = request_of(PLEACH_ALL_REDUCE, 0, 4);
  request.from = request.to = {at::empty({10}, at::kFloat)};
  request.asked.count = 10;
  const vector<Cut> cuts = cut_request(request, 4);
  ASSERT_EQ(cuts.size(), 3U);
  EXPECT_EQ(cuts[2].count, 2);
  EXPECT_EQ(listed(cuts[2].from), (vector<int64_t>{8, 9}));
  EXPECT_EQ(listed(cuts[2].to), (vector<int64_t>{8, 9}));
}

TEST(CutsOfOneTensor, AreOneWhereThereIsNothing) {
  Request request = request_of(PLEACH_BROADCAST, 1, 4);
  request.to = {at::empty({0}, at::kFloat)};
  EXPECT_EQ(cut_request(request, 4).size(), 1U);
}

TEST(CutsOfExchanges, AreOne) {
  Request request = request_of(PLEACH_ALL_TO_ALL, 1, 2);
  request.from = request.to = {at::empty({100}, at::kFloat)};
  request.counts = request.receive_counts = {50, 50};
  const vector<Cut> cuts = cut_request(request, 4);
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].counts, request.counts);
  EXPECT_EQ(cuts[0].from[0].size, 100);
}

TEST(Memory, IsKeptForTheNextOfItsSize) {
  void* first = nullptr;
  {
    const at::Tensor tensor = allocate(1000, at::kFloat);
    first = tensor.data_ptr();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 4096, 0U);
  }
  const at::Tensor other_class = allocate(100'000, at::kFloat);
  EXPECT_NE(other_class.data_ptr(), first);
  EXPECT_EQ(allocate(900, at::kFloat).data_ptr(), first);
  EXPECT_EQ(allocate(0, at::kFloat).numel(), 0);
  EXPECT_THROW(allocate(-1, at::kFloat), c10::ValueError);
  EXPECT_THROW(allocate(int64_t{1} << 60, at::kFloat), c10::ValueError);
}

TEST(Flight, KeepsTheLastAndHowTheyEnded) {
  FlightRing ring;
  FlightRecord record;
  record.name = "all_reduce";
  vector<FlightPlace> places;
  for (int index = 0; index < 3000; ++index) {
    places.push_back(ring.begin(record));
  }
  ring.end(places[0], FlightState::kFailed);  // another is in its place
  ring.end(places[2999], FlightState::kCompleted);
  ring.end(places[2998], FlightState::kFailed);
  const vector<FlightRecord> records = ring.records();
  ASSERT_EQ(records.size(), 2048U);
  EXPECT_EQ(records.front().number, 3000U - 2048U);
  EXPECT_EQ(records.back().state, FlightState::kCompleted);
  EXPECT_TRUE(records.back().is_retired);
  EXPECT_EQ(records[2046].state, FlightState::kFailed);
  for (size_t index = 0; index < 2046; ++index) {
    ASSERT_EQ(records[index].state, FlightState::kStarted);
    ASSERT_EQ(records[index].number, 3000U - 2048U + index);
  }
}

}  // namespace
}  // namespace pleach_torch
