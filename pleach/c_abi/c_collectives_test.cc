// Collectives through the C interface, by what libpleach.so exports alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "pleach/api/pleach.h"
#include "pleach/base/element.h"
#include "tests/support/c_ranks.h"

namespace pleach::support::c {
namespace {

using Bytes = std::vector<std::byte>;

// Small whole numbers, which every type holds exactly, as elements of a type.
struct TypeRow {
  pleach_type type;
  ElementType element;
};
constexpr TypeRow kTypes[] = {
    {PLEACH_FLOAT32, ElementType::kFloat32}, {PLEACH_FLOAT64, ElementType::kFloat64},
    {PLEACH_FLOAT16, ElementType::kFloat16}, {PLEACH_BFLOAT16, ElementType::kBFloat16},
    {PLEACH_INT8, ElementType::kInt8},       {PLEACH_INT32, ElementType::kInt32},
    {PLEACH_INT64, ElementType::kInt64},     {PLEACH_UINT8, ElementType::kUint8}};

Bytes elements(ElementType type, const std::vector<int>& values) {
  return with_element(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Bytes bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T element = narrow<T>(static_cast<Arithmetic<T>>(values[i]));
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
    return bytes;
  });
}

// What a rank puts in at a place of its input.
int value_of(int32_t rank, int64_t place) {
  return static_cast<int>((rank * 3 + place * 7) % 11);
}

// A collective: what a rank gives, what it ends with (nothing: it holds no result), and the call.
struct CollectiveRow {
  const char* name;
  bool has_root;
  std::function<std::vector<int>(int32_t rank, int32_t ranks, int32_t root, int64_t count)> input;
  std::function<std::vector<int>(int32_t rank, int32_t ranks, int32_t root, int64_t count)> output;
  std::function<pleach_status(pleach_communicator*, const void*, void*, int64_t, pleach_type,
                              int32_t root, pleach_operation**)>
      call;
};

std::vector<int> whole_of(int32_t rank, int64_t count) {
  std::vector<int> values;
  for (int64_t place = 0; place < count; ++place) {
    values.push_back(value_of(rank, place));
  }
  return values;
}

std::vector<int> sums(int32_t ranks, int64_t begin, int64_t count) {
  std::vector<int> values;
  for (int64_t place = begin; place < begin + count; ++place) {
    int sum = 0;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      sum += value_of(rank, place);
    }
    values.push_back(sum);
  }
  return values;
}

// The elements at `begin` of every rank, one rank after the other.
std::vector<int> from_each(int32_t ranks, int64_t begin, int64_t count) {
  std::vector<int> values;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    for (int64_t place = begin; place < begin + count; ++place) {
      values.push_back(value_of(rank, place));
    }
  }
  return values;
}

const std::vector<CollectiveRow>& collectives() {
  using Values = std::vector<int>;
  const auto own_whole = [](int32_t rank, int32_t, int32_t, int64_t count) {
    return whole_of(rank, count);
  };
  const auto own_parts = [](int32_t rank, int32_t ranks, int32_t, int64_t count) {
    return whole_of(rank, count * ranks);
  };
  static const std::vector<CollectiveRow> rows = {
      {"all_reduce", false, own_whole,
       [](int32_t, int32_t ranks, int32_t, int64_t count) { return sums(ranks, 0, count); },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto, auto** done) {
         return pleach_all_reduce(communicator, input, output, count, type, PLEACH_SUM, done);
       }},
      {"reduce_scatter", false, own_parts,
       [](int32_t rank, int32_t ranks, int32_t, int64_t count) {
         return sums(ranks, rank * count, count);
       },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto, auto** done) {
         return pleach_reduce_scatter(communicator, input, output, count, type, PLEACH_SUM, done);
       }},
      {"all_gather", false, own_whole,
       [](int32_t, int32_t ranks, int32_t, int64_t count) { return from_each(ranks, 0, count); },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto, auto** done) {
         return pleach_all_gather(communicator, input, output, count, type, done);
       }},
      {"all_to_all", false, own_parts,
       [](int32_t rank, int32_t ranks, int32_t, int64_t count) {
         return from_each(ranks, rank * count, count);
       },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto, auto** done) {
         return pleach_all_to_all(communicator, input, output, count, type, done);
       }},
      {"broadcast", true,
       [](int32_t rank, int32_t, int32_t root, int64_t count) {
         return rank == root ? whole_of(rank, count) : Values();
       },
       [](int32_t, int32_t, int32_t root, int64_t count) { return whole_of(root, count); },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto root,
          auto** done) {
         return pleach_broadcast(communicator, input, output, count, type, root, done);
       }},
      {"reduce", true, own_whole,
       [](int32_t rank, int32_t ranks, int32_t root, int64_t count) {
         return rank == root ? sums(ranks, 0, count) : Values();
       },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto root,
          auto** done) {
         return pleach_reduce(communicator, input, output, count, type, PLEACH_SUM, root, done);
       }},
      {"gather", true, own_whole,
       [](int32_t rank, int32_t ranks, int32_t root, int64_t count) {
         return rank == root ? from_each(ranks, 0, count) : Values();
       },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto root,
          auto** done) {
         return pleach_gather(communicator, input, output, count, type, root, done);
       }},
      {"scatter", true,
       [](int32_t rank, int32_t ranks, int32_t root, int64_t count) {
         return rank == root ? whole_of(rank, count * ranks) : Values();
       },
       [](int32_t rank, int32_t, int32_t root, int64_t count) {
         const Values whole = whole_of(root, count * (rank + 1));
         return Values(whole.end() - count, whole.end());
       },
       [](auto* communicator, auto* input, auto* output, auto count, auto type, auto root,
          auto** done) {
         return pleach_scatter(communicator, input, output, count, type, root, done);
       }},
  };
  return rows;
}

// One collective of one rank, its buffers apart or in one.
class Performance {
 public:
  Performance(const CollectiveRow& row, const TypeRow& type, int32_t rank, int32_t ranks,
              int32_t root, int64_t count, bool in_place)
      : row_(row), type_(type), root_(root), count_(count) {
    const Bytes given = elements(type.element, row.input(rank, ranks, root, count));
    expected_ = elements(type.element, row.output(rank, ranks, root, count));
    if (!in_place) {
      input_ = given;
      output_.assign(expected_.size(), std::byte{0xa5});
      source_ = input_.data();
      target_ = output_.data();
      return;
    }
    // The larger of the two, with the smaller one, where it is a part, at its place.
    const bool is_part = given.size() != expected_.size() && !given.empty() && !expected_.empty();
    output_.assign(std::max(given.size(), expected_.size()), std::byte{0xa5});
    const std::size_t part = is_part ? std::min(given.size(), expected_.size()) : 0;
    const std::size_t place = part * static_cast<std::size_t>(rank);
    std::byte* const source = output_.data() + (given.size() == part ? place : 0);
    std::ranges::copy(given, source);
    // What a rank does not need may be NULL.
    source_ = given.empty() ? nullptr : source;
    target_ = expected_.empty() ? nullptr : output_.data() + (expected_.size() == part ? place : 0);
  }

  pleach_status call(pleach_communicator* communicator, pleach_operation** operation) {
    return row_.call(communicator, source_, target_, count_, type_.type, root_, operation);
  }
  bool is_right() const { return std::equal(expected_.begin(), expected_.end(), target_); }

 private:
  const CollectiveRow& row_;
  TypeRow type_;
  int32_t root_;
  int64_t count_;
  Bytes expected_, input_, output_;
  std::byte* source_ = nullptr;
  std::byte* target_ = nullptr;
};

TEST(CCollectivesTest, EveryCollectiveOfEveryType) {
  for (const char* transport : {"tcp", "shm"}) {
    for (const int32_t ranks : {1, 3}) {
      with_communicators({ranks, transport}, [&](pleach_communicator* communicator, int32_t rank) {
        for (const CollectiveRow& row : collectives()) {
          for (const TypeRow& type : kTypes) {
            for (const int64_t count : {0, 1, 5, 1000}) {
              for (int32_t root = 0; root < (row.has_root ? ranks : 1); ++root) {
                SCOPED_TRACE(testing::Message()
                             << transport << ", " << ranks << " ranks, " << row.name << " of "
                             << count << " of type " << type.type << ", root " << root);
                Performance apart(row, type, rank, ranks, root, count, false);
                ASSERT_EQ(said(apart.call(communicator, nullptr)), "");
                ASSERT_TRUE(apart.is_right());
                Performance in_place(row, type, rank, ranks, root, count, true);
                pleach_operation* started = nullptr;
                ASSERT_EQ(said(in_place.call(communicator, &started)), "");
                const Operation operation(started);
                ASSERT_EQ(said(pleach_operation_wait(started, PLEACH_FOREVER)), "");
                ASSERT_TRUE(in_place.is_right());
              }
            }
          }
        }
      });
    }
  }
}

TEST(CCollectivesTest, PartsOfDifferentSizes) {
  for (const char* transport : {"tcp", "shm"}) {
    with_communicators({3, transport}, [](pleach_communicator* communicator, int32_t rank) {
      using Numbers = std::vector<int32_t>;
      const int64_t counts[] = {2, 0, 3};
      const Numbers own(static_cast<std::size_t>(counts[rank]), rank);
      Numbers gathered(5, -1);
      ASSERT_EQ(said(pleach_all_gather_v(communicator, own.data(), gathered.data(), counts,
                                         PLEACH_INT32, nullptr)),
                "");
      EXPECT_EQ(gathered, (Numbers{0, 0, 2, 2, 2}));

      Numbers whole = {1, 2, 3, 4, 5};
      Numbers part(own.size(), -1);
      pleach_operation* operation = nullptr;
      ASSERT_EQ(said(pleach_reduce_scatter_v(communicator, whole.data(), part.data(), counts,
                                             PLEACH_INT32, PLEACH_SUM, &operation)),
                "");
      ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
      pleach_operation_destroy(operation);
      EXPECT_EQ(part, rank == 0 ? (Numbers{3, 6}) : rank == 1 ? Numbers() : (Numbers{9, 12, 15}));

      // Rank i sends i + j elements to rank j.
      const int64_t pairs[] = {rank, rank + 1, rank + 2};
      const Numbers sent(static_cast<std::size_t>(3 * rank + 3), rank);
      Numbers received(sent.size(), -1);
      ASSERT_EQ(said(pleach_all_to_all_v(communicator, sent.data(), pairs, received.data(), pairs,
                                         PLEACH_INT32, nullptr)),
                "");
      Numbers expected;
      for (int32_t source = 0; source < 3; ++source) {
        expected.insert(expected.end(), static_cast<std::size_t>(source + rank), source);
      }
      EXPECT_EQ(received, expected);

      EXPECT_EQ(said(pleach_all_gather_v(communicator, own.data(), gathered.data(), nullptr,
                                         PLEACH_INT32, nullptr)),
                "pleach_all_gather_v: counts is NULL");
      EXPECT_EQ(said(pleach_all_to_all_v(communicator, sent.data(), nullptr, received.data(), pairs,
                                         PLEACH_INT32, nullptr)),
                "pleach_all_to_all_v: send_counts is NULL");
      EXPECT_EQ(said(pleach_all_to_all_v(communicator, sent.data(), pairs, received.data(), nullptr,
                                         PLEACH_INT32, nullptr)),
                "pleach_all_to_all_v: receive_counts is NULL");
    });
  }
}

TEST(CCollectivesTest, PartsOfDifferentSizesToAndFromARoot) {
  for (const char* transport : {"tcp", "shm"}) {
    with_communicators({3, transport}, [](pleach_communicator* communicator, int32_t rank) {
      using Numbers = std::vector<int32_t>;
      const int64_t counts[] = {2, 0, 3};
      for (int32_t root = 0; root < 3; ++root) {
        const Numbers own(static_cast<std::size_t>(counts[rank]), rank);
        Numbers gathered(rank == root ? 5 : 0, -1);
        ASSERT_EQ(said(pleach_gather_v(communicator, own.data(), gathered.data(), counts,
                                       PLEACH_INT32, root, nullptr)),
                  "");
        EXPECT_EQ(gathered, rank == root ? (Numbers{0, 0, 2, 2, 2}) : Numbers());

        const Numbers whole = rank == root ? (Numbers{1, 2, 3, 4, 5}) : Numbers();
        Numbers part(own.size(), -1);
        pleach_operation* operation = nullptr;
        ASSERT_EQ(said(pleach_scatter_v(communicator, whole.data(), part.data(), counts,
                                        PLEACH_INT32, root, &operation)),
                  "");
        const Operation held(operation);
        ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
        EXPECT_EQ(part, rank == 0 ? (Numbers{1, 2}) : rank == 1 ? Numbers() : (Numbers{3, 4, 5}));
      }
      EXPECT_EQ(
          said(pleach_gather_v(communicator, nullptr, nullptr, nullptr, PLEACH_INT32, 0, nullptr)),
          "pleach_gather_v: counts is NULL");
      EXPECT_EQ(
          said(pleach_scatter_v(communicator, nullptr, nullptr, nullptr, PLEACH_INT32, 0, nullptr)),
          "pleach_scatter_v: counts is NULL");
    });
  }
}

pleach_request request_of(pleach_collective collective, pleach_type type) {
  pleach_request request = {};
  request.size = sizeof(request);
  request.collective = collective;
  request.type = type;
  return request;
}

TEST(CCollectivesTest, RequestsSayAllThatMayBeAsked) {
  with_communicators({3, "shm"}, [](pleach_communicator* communicator, int32_t rank) {
    // 2048 + 1 + 1 is 2050 in float16, unless it is rounded in between.
    std::vector<Float16> data(9, narrow<Float16>(rank == 0 ? 2048 : 1));
    pleach_request request = request_of(PLEACH_ALL_REDUCE, PLEACH_FLOAT16);
    request.wire = PLEACH_WIRE_FLOAT32;
    request.input = request.output = data.data();
    request.count = 9;
    ASSERT_EQ(said(pleach_perform(communicator, &request, nullptr)), "");
    for (const Float16 value : data) {
      EXPECT_EQ(widen(value), 2050);
    }
    std::vector<int32_t> whole(5, rank), part(2, -1);
    const int64_t counts[] = {2, 1, 2};
    request = request_of(PLEACH_REDUCE_SCATTER, PLEACH_INT32);
    request.reduction = PLEACH_MAX;
    request.input = whole.data();
    request.output = part.data();
    request.counts = counts;
    pleach_operation* operation = nullptr;
    ASSERT_EQ(said(pleach_perform(communicator, &request, &operation)), "");
    const Operation held(operation);
    ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
    EXPECT_EQ(part, (std::vector<int32_t>{2, rank == 1 ? -1 : 2}));
    request = request_of(PLEACH_BROADCAST, PLEACH_INT32);
    request.root = 2;
    request.reduction = PLEACH_AVERAGE;  // it reduces nothing
    request.input = whole.data();
    request.output = part.data();
    request.count = 2;
    ASSERT_EQ(said(pleach_perform(communicator, &request, nullptr)), "");
    EXPECT_EQ(part, std::vector<int32_t>(2, 2));
  });
}

// Two gathers, and two scattered averages, each as one: ranks have parts of both pieces.
TEST(CCollectivesTest, PiecesAreSeveralCollectivesInOne) {
  for (const char* transport : {"tcp", "shm"}) {
    with_communicators({2, transport}, [](pleach_communicator* communicator, int32_t rank) {
      const int64_t counts[] = {2, 2, 0, 3};
      const std::vector<float> own(rank == 0 ? 2 : 5, static_cast<float>(rank + 1));
      std::vector<float> whole(7, -1);
      pleach_request request = request_of(PLEACH_ALL_GATHER, PLEACH_FLOAT32);
      request.piece_count = 2;
      request.counts = counts;
      request.input = own.data();
      request.output = whole.data();
      ASSERT_EQ(said(pleach_perform(communicator, &request, nullptr)), "");
      EXPECT_EQ(whole, (std::vector<float>{1, 1, 2, 2, 2, 2, 2}));

      whole = {1, 2, 3, 4, 5, 6, 7};
      for (float& value : whole) {
        value += static_cast<float>(2 * rank);
      }
      request.collective = PLEACH_REDUCE_SCATTER;
      request.reduction = PLEACH_AVERAGE;
      request.input = request.output = whole.data();
      pleach_operation* operation = nullptr;
      ASSERT_EQ(said(pleach_perform(communicator, &request, &operation)), "");
      const Operation held(operation);
      ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
      for (const std::size_t place :
           rank == 0 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{2, 3, 4, 5, 6}) {
        EXPECT_EQ(whole[place], static_cast<float>(place) + 2) << place;
      }
    });
  }
}

TEST(CCollectivesTest, RequestsThatNobodyCouldMeanAreRefused) {
  with_communicators({2, "tcp"}, [](pleach_communicator* communicator, int32_t /*rank*/) {
    const auto refused = [&](const std::function<void(pleach_request&)>& change) {
      pleach_request request = request_of(PLEACH_ALL_GATHER, PLEACH_FLOAT16);
      change(request);
      pleach_operation* operation = nullptr;
      EXPECT_EQ(pleach_perform(communicator, &request, &operation), PLEACH_INVALID_ARGUMENT);
      EXPECT_EQ(operation, nullptr);
      return std::string(pleach_last_error());
    };
    EXPECT_EQ(refused([](auto& request) { request.collective = 8; }), "8 is no pleach_collective");
    EXPECT_TRUE(contains(refused([](auto& request) { request.wire = 2; }), "2 is no pleach_wire"));
    EXPECT_TRUE(contains(refused([](auto& request) { request.wire = PLEACH_WIRE_FLOAT32; }),
                         "all_gather of float16 cannot travel as float32"));
    for (const std::size_t size : {3, 8, 13}) {
      EXPECT_TRUE(contains(refused([&](auto& request) { request.size = size; }),
                           "a size of " + std::to_string(size)));
    }
    EXPECT_TRUE(
        contains(refused([](auto& request) { request.piece_count = -1; }), "piece_count is -1"));
    EXPECT_TRUE(contains(refused([](auto& request) { request.piece_count = 2; }),
                         "piece_count is 2, but there are no counts"));
    EXPECT_TRUE(contains(refused([](auto& request) { request.deadline_ms = -1; }),
                         "deadline_ms -1 is not in [1, "));
    const std::vector<int64_t> few = {1, 2}, many = {1, int64_t{1} << 62};
    EXPECT_TRUE(contains(refused([&](auto& request) {
                           request.counts = few.data();
                           request.count = 1;
                         }),
                         "counts for each rank too"));
    EXPECT_TRUE(
        contains(refused([&](auto& request) { request.counts = many.data(); }), "too many"));
    EXPECT_TRUE(contains(
        refused([&](auto& request) { request.counts = request.receive_counts = few.data(); }),
        "no receive_counts"));
    const std::vector<int64_t> pairs = {1, 2, 3, 4};
    EXPECT_TRUE(contains(refused([&](auto& request) {
                           request.collective = PLEACH_ALL_TO_ALL;
                           request.piece_count = 2;
                           request.counts = pairs.data();
                           request.receive_counts = few.data();
                         }),
                         "it has no shards that could lie in pieces"));
    EXPECT_TRUE(contains(refused([&](auto& request) {
                           request.piece_count = 1 << 30;
                           request.counts = few.data();
                         }),
                         "piece_count is 1073741824"));
    EXPECT_TRUE(contains(refused([&](auto& request) {
                           request.collective = PLEACH_BROADCAST;
                           request.counts = few.data();
                         }),
                         "no parts"));
    EXPECT_EQ(said(pleach_perform(communicator, nullptr, nullptr)),
              "pleach_perform: request is NULL");
    EXPECT_EQ(said(pleach_barrier(communicator, nullptr)), "");  // nothing has happened
  });
}

TEST(CCollectivesTest, OperationsTellWhenTheyBeganAndEnded) {
  with_communicators({2, "shm"}, [](pleach_communicator* communicator, int32_t rank) {
    int32_t value = rank;
    int64_t before = 0;
    for (int round = 0; round < 3; ++round) {
      pleach_operation* operation = nullptr;
      ASSERT_EQ(said(pleach_all_reduce(communicator, &value, &value, 1, PLEACH_INT32, PLEACH_SUM,
                                       &operation)),
                "");
      const Operation held(operation);
      ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
      int64_t started = 0, finished = 0;
      ASSERT_EQ(said(pleach_operation_times(operation, &started, &finished)), "");
      EXPECT_GT(started, before);
      EXPECT_GE(finished, started);
      before = finished;
      EXPECT_EQ(said(pleach_operation_times(operation, nullptr, nullptr)), "");
    }
    EXPECT_EQ(said(pleach_operation_times(nullptr, nullptr, nullptr)),
              "pleach_operation_times: operation is NULL");
  });
}

TEST(CCollectivesTest, EveryReduction) {
  struct Row {
    pleach_reduction reduction;
    int32_t expected;  // of 6 and 3
  };
  constexpr Row kInteger[] = {
      {PLEACH_SUM, 9},         {PLEACH_PRODUCT, 18},   {PLEACH_MIN, 3},        {PLEACH_MAX, 6},
      {PLEACH_BITWISE_AND, 2}, {PLEACH_BITWISE_OR, 7}, {PLEACH_BITWISE_XOR, 5}};
  with_communicators({2, "shm"}, [&](pleach_communicator* communicator, int32_t rank) {
    for (const Row& row : kInteger) {
      std::vector<int32_t> data(7, rank == 0 ? 6 : 3);
      ASSERT_EQ(said(pleach_all_reduce(communicator, data.data(), data.data(), 7, PLEACH_INT32,
                                       row.reduction, nullptr)),
                "");
      EXPECT_EQ(data, std::vector<int32_t>(7, row.expected)) << row.reduction;
    }
    std::vector<double> data(7, rank == 0 ? 6 : 3);
    ASSERT_EQ(said(pleach_all_reduce(communicator, data.data(), data.data(), 7, PLEACH_FLOAT64,
                                     PLEACH_AVERAGE, nullptr)),
              "");
    EXPECT_EQ(data, std::vector<double>(7, 4.5));
  });
}

TEST(CCollectivesTest, CallsBackForEachOfManyInFlight) {
  constexpr int kInFlight = 16;
  for (const char* transport : {"tcp", "shm"}) {
    std::vector<Told> told(3 * kInFlight);
    with_communicators({3, transport}, [&](pleach_communicator* communicator, int32_t rank) {
      std::vector<std::vector<float>> data;
      std::vector<Operation> operations;
      for (int i = 0; i < kInFlight; ++i) {
        data.emplace_back(1000 * i, static_cast<float>(i));
        pleach_operation* operation = nullptr;
        ASSERT_EQ(said(pleach_all_reduce(communicator, data.back().data(), data.back().data(),
                                         1000 * i, PLEACH_FLOAT32, PLEACH_SUM, &operation)),
                  "");
        operations.emplace_back(operation);
        ASSERT_EQ(said(pleach_operation_on_done(operation, Told::hear,
                                                &told[static_cast<size_t>(rank * kInFlight + i)])),
                  "");
      }
      for (int i = kInFlight - 1; i >= 0; --i) {
        const Operation operation = std::move(operations[static_cast<size_t>(i)]);
        if (i % 2 == 0) {
          ASSERT_EQ(said(pleach_operation_wait(operation.get(), PLEACH_FOREVER)), "");
          continue;
        }
        int32_t is_done = 0;
        while (is_done == 0) {
          ASSERT_EQ(said(pleach_operation_test(operation.get(), &is_done)), "");
        }
      }
      for (int i = 0; i < kInFlight; ++i) {
        ASSERT_EQ(data[static_cast<size_t>(i)],
                  std::vector<float>(static_cast<size_t>(1000 * i), static_cast<float>(3 * i)));
      }
    });
    for (const Told& one : told) {
      EXPECT_EQ(one.calls, 1);
      EXPECT_EQ(one.status, PLEACH_OK);
      EXPECT_EQ(one.error, "");
    }
  }
}

TEST(CCollectivesTest, CallbackStartsTheNextOperationAndNobodyWaits) {
  struct Chain {
    pleach_communicator* communicator;
    std::vector<int32_t> data = std::vector<int32_t>(100, 1);
    int left = 20;
    std::promise<std::string> end = {};
    static void go_on(void* context, pleach_status status, const char* error) {
      auto& chain = *static_cast<Chain*>(context);
      if (status != PLEACH_OK || chain.left-- == 0) {
        chain.end.set_value(error);
        return;
      }
      pleach_operation* next = nullptr;
      if (pleach_all_reduce(chain.communicator, chain.data.data(), chain.data.data(), 100,
                            PLEACH_INT32, PLEACH_SUM, &next) != PLEACH_OK) {
        chain.end.set_value(pleach_last_error());
        return;
      }
      pleach_operation_on_done(next, go_on, context);
      pleach_operation_destroy(next);
    }
  };
  with_communicators({2, "tcp"}, [](pleach_communicator* communicator, int32_t /*rank*/) {
    Chain chain = {communicator};
    Chain::go_on(&chain, PLEACH_OK, "");
    auto end = chain.end.get_future();
    ASSERT_EQ(end.wait_for(std::chrono::seconds(15)), std::future_status::ready);
    EXPECT_EQ(end.get(), "");
    EXPECT_EQ(chain.data, std::vector<int32_t>(100, 1 << 20));
  });
}

TEST(CCollectivesTest, SeveralThreadsEachWithOperationsInFlight) {
  constexpr int kThreads = 3;
  for (const char* transport : {"tcp", "shm"}) {
    with_endpoints({2, transport}, [&](const Endpoint& endpoint, int32_t rank) {
      std::vector<Communicator> communicators;
      for (int i = 0; i < kThreads; ++i) {
        communicators.push_back(create(endpoint, std::to_string(i).c_str()));
        ASSERT_NE(communicators.back(), nullptr);
      }
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
          pleach_communicator* const own = communicators[static_cast<size_t>(i)].get();
          for (int round = 0; round < 20; ++round) {
            std::vector<int64_t> first(5000, i + rank), second(10, round);
            pleach_operation* one = nullptr;
            pleach_operation* other = nullptr;
            ASSERT_EQ(said(pleach_all_reduce(own, first.data(), first.data(), 5000, PLEACH_INT64,
                                             PLEACH_SUM, &one)),
                      "");
            ASSERT_EQ(said(pleach_all_reduce(own, second.data(), second.data(), 10, PLEACH_INT64,
                                             PLEACH_MAX, &other)),
                      "");
            ASSERT_EQ(said(pleach_operation_wait(other, PLEACH_FOREVER)), "");
            ASSERT_EQ(said(pleach_operation_wait(one, PLEACH_FOREVER)), "");
            ASSERT_EQ(first, std::vector<int64_t>(5000, 2 * i + 1));
            ASSERT_EQ(second, std::vector<int64_t>(10, round));
            pleach_operation_destroy(one);
            pleach_operation_destroy(other);
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      for (const Communicator& communicator : communicators) {
        EXPECT_EQ(said(pleach_communicator_close(communicator.get())), "");
      }
    });
  }
}

TEST(CCollectivesTest, BarrierHoldsAllUntilTheLastHasCome) {
  std::atomic<int> come = 0;
  with_communicators({3, "shm"}, [&](pleach_communicator* communicator, int32_t rank) {
    for (int round = 1; round <= 10; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(rank));
      ++come;
      if (round % 2 == 0) {
        ASSERT_EQ(said(pleach_barrier(communicator, nullptr)), "");
      } else {
        pleach_operation* barrier = nullptr;
        ASSERT_EQ(said(pleach_barrier(communicator, &barrier)), "");
        ASSERT_EQ(said(pleach_operation_wait(barrier, PLEACH_FOREVER)), "");
        pleach_operation_destroy(barrier);
      }
      ASSERT_GE(come, 3 * round);
    }
  });
}

// Asks for an all_reduce of one number and a barrier, with a deadline of their own.
std::string ask_with(pleach_communicator* communicator, int64_t deadline_ms) {
  float number = 1;
  pleach_request request = request_of(PLEACH_ALL_REDUCE, PLEACH_FLOAT32);
  request.input = request.output = &number;
  request.count = 1;
  request.deadline_ms = deadline_ms;
  const std::string error = said(pleach_perform(communicator, &request, nullptr));
  pleach_barrier_options options = {};
  options.size = sizeof(options);
  options.deadline_ms = deadline_ms;
  return error.empty() ? said(pleach_barrier_with(communicator, &options, nullptr)) : error;
}

TEST(CCollectivesTest, DeadlinesOfTheirOwnAreLonger) {
  with_communicators({2, "tcp", 2000}, [](pleach_communicator* communicator, int32_t rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 2600));
    EXPECT_EQ(ask_with(communicator, 30'000), "");
  });
}

TEST(CCollectivesTest, DeadlinesOfTheirOwnAreShorter) {
  with_endpoints({2, "tcp", 60'000}, [](const auto& endpoint, int32_t rank) {
    static std::atomic<bool> is_over = false;
    const auto communicator = create(endpoint);
    if (rank == 0) {
      EXPECT_TRUE(contains(ask_with(communicator.get(), 200), "rank 1")) << "who has not come";
      is_over = true;
    }
    while (!is_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
}

TEST(CCollectivesTest, GroupsAndSplits) {
  with_endpoints({4, "shm"}, [](const Endpoint& endpoint, int32_t rank) {
    EXPECT_EQ(pleach_endpoint_rank(endpoint.get()), rank);
    EXPECT_EQ(pleach_endpoint_rank_count(endpoint.get()), 4);
    EXPECT_STREQ(pleach_endpoint_transport(endpoint.get()), "shm");
    const auto sum = [](const Communicator& communicator, int32_t value) {
      pleach_all_reduce(communicator.get(), &value, &value, 1, PLEACH_INT32, PLEACH_SUM, nullptr);
      return value;
    };
    const Communicator world = create(endpoint);
    // Its members alone create it, in an order of their own.
    Communicator pair;
    if (rank == 1 || rank == 3) {
      pair = create(endpoint, "pair", {3, 1});
      EXPECT_EQ(pleach_communicator_rank(pair.get()), rank == 3 ? 0 : 1);
      EXPECT_EQ(pleach_communicator_rank_count(pair.get()), 2);
      EXPECT_EQ(sum(pair, rank), 4);
    }
    pleach_communicator* part = nullptr;
    ASSERT_EQ(said(pleach_communicator_split(world.get(), rank == 2 ? -1 : 0, -rank, &part)), "");
    const Communicator three(part);
    EXPECT_EQ(three == nullptr, rank == 2);
    if (three != nullptr) {
      EXPECT_EQ(pleach_communicator_rank_count(part), 3);
      EXPECT_EQ(pleach_communicator_rank(part), rank == 3 ? 0 : 2 - rank);
      EXPECT_EQ(sum(three, rank + 10), 34);
      EXPECT_EQ(said(pleach_communicator_close(part)), "");
    }
    EXPECT_EQ(sum(world, rank), 6);
    if (pair != nullptr) {
      EXPECT_EQ(said(pleach_communicator_close(pair.get())), "");
    }
    EXPECT_EQ(said(pleach_communicator_close(world.get())), "");
  });
}

}  // namespace
}  // namespace pleach::support::c
