// Works over real groups: ranks are threads of this process.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "completions.h"
#include "memory.h"
#include "python/tests/shim/ranks.h"

namespace pleach_torch {
namespace {

using c10d::ReduceOp;
using std::chrono::milliseconds;

at::Tensor numbers(int64_t size, float begin) {
  return at::arange(size, at::kFloat) + begin;
}

TEST(Works, HoldTheirResultsAndTellThem) {
  run_well(options_of("results", 3), [](const BackendPointer& backend) {
    Tensors tensors = {numbers(1000, static_cast<float>(backend->getRank()))};
    const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
    EXPECT_TRUE(work->wait(milliseconds(0)));
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(work->isSuccess());
    EXPECT_EQ(work->exception(), nullptr);
    EXPECT_TRUE(at::equal(work->result()[0], numbers(1000, 0) * 3 + 3));
    EXPECT_GE(work->getDuration(), 0);
    EXPECT_EQ(work->getSequencenumber(), 1U);
    EXPECT_THROW(work->sourceRank(), c10::Error);
  });
}

TEST(Works, CompleteFuturesWhoeverAsksWhen) {
  run_well(options_of("futures", 2), [](const BackendPointer& backend) {
    for (const bool asks_late : {false, true}) {
      Tensors tensors = {at::full({5}, backend->getRank() + 1, at::kFloat)};
      const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
      if (asks_late) {
        work->wait(milliseconds(0));
      }
      const auto future = work->getFuture();
      std::promise<float> seen;
      future->addCallback([&](c10::ivalue::Future& done) {
        // May wait for another collective.
        Tensors others = {done.value().toTensorVector()[0].clone()};
        backend->allreduce(others, asynchronous<c10d::AllreduceOptions>())->wait(milliseconds(0));
        seen.set_value(others[0][4].item<float>());
      });
      future->wait();
      EXPECT_EQ(seen.get_future().get(), 6);
    }
  });
}

TEST(Works, OfManyThreadsAreCompletedOnce) {
  run_well(options_of("threads", 2), [](const BackendPointer& backend) {
    std::vector<WorkPointer> works;
    std::vector<Tensors> tensors;
    for (int index = 0; index < 50; ++index) {
      tensors.push_back({at::full({64}, index, at::kFloat)});
      works.push_back(backend->allreduce(tensors.back(), asynchronous<c10d::AllreduceOptions>()));
    }
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        for (const WorkPointer& work : works) {
          work->wait(milliseconds(0));
          EXPECT_TRUE(work->isCompleted());
          work->getFuture()->wait();
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (int index = 0; index < 50; ++index) {
      EXPECT_EQ(tensors[index][0][63].item<float>(), 2 * index);
    }
  });
}

TEST(Works, ThatAreDroppedGoOn) {
  run_well(options_of("dropped", 2), [](const BackendPointer& backend) {
    for (int index = 0; index < 20; ++index) {
      Tensors tensors = {at::full({10'000}, 1, at::kFloat)};
      backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
    }
    Tensors last = {at::full({1}, 1, at::kFloat)};
    backend->allreduce(last, asynchronous<c10d::AllreduceOptions>())->wait(milliseconds(0));
    EXPECT_EQ(last[0].item<float>(), 2);
  });
}

TEST(Works, WaitNoLongerThanTheyAreTold) {
  run_well(options_of("patience", 2), [](const BackendPointer& backend) {
    Tensors tensors = {at::full({4}, 1, at::kFloat)};
    Tensors signal = {at::zeros({1}, at::kFloat)};
    if (backend->getRank() == 0) {
      const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
      try {
        work->wait(milliseconds(20));
        ADD_FAILURE() << "the other rank has not come";
      } catch (const c10::DistBackendError& error) {
        EXPECT_TRUE(has_text(error.what(), "was not done within 20 ms: it goes on"))
            << error.what();
      }
      EXPECT_FALSE(work->isCompleted());
      backend->send(signal, 1, 0)->wait(milliseconds(0));
      EXPECT_TRUE(work->wait(milliseconds(0)));
    } else {
      backend->recv(signal, 0, 0)->wait(milliseconds(0));
      backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>())->wait(milliseconds(0));
    }
    EXPECT_EQ(tensors[0][3].item<float>(), 2);
  });
}

TEST(Works, TellWhoDidNotCome) {
  JoinOptions options = options_of("absent", 2);
  options.carrier.timeout_ms = 500;
  std::promise<void> is_over;
  const std::shared_future<void> over = is_over.get_future().share();
  const auto errors = run_ranks(options, [&](const BackendPointer& backend) {
    if (backend->getRank() == 1) {
      over.wait();
      return;
    }
    Tensors tensors = {at::full({4}, 1, at::kFloat)};
    const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
    const auto future = work->getFuture();
    EXPECT_EQ(backend->getError(), c10d::ErrorType::SUCCESS);
    EXPECT_THROW(work->wait(milliseconds(0)), c10::DistBackendError);
    is_over.set_value();
    EXPECT_EQ(backend->getError(), c10d::ErrorType::COMM_ERROR);
    EXPECT_FALSE(work->isSuccess());
    EXPECT_TRUE(work->isCompleted());
    future->waitAndThrow();
  });
  EXPECT_TRUE(has_text(errors[0], "all_reduce 1 of group absent")) << errors[0];
  EXPECT_TRUE(has_text(errors[0], "rank 1")) << errors[0];
}

TEST(Works, EndWhenTheirGroupIsAborted) {
  std::promise<void> is_over;
  const std::shared_future<void> over = is_over.get_future().share();
  const auto errors = run_ranks(options_of("aborted", 2), [&](const BackendPointer& backend) {
    if (backend->getRank() == 1) {
      over.wait();
      return;
    }
    Tensors tensors = {at::full({4}, 1, at::kFloat)};
    const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
    wait_while_aborted(work, is_over);
  });
  EXPECT_TRUE(has_text(errors[0], "was aborted")) << errors[0];
}

TEST(Works, NameBothSidesOfAMismatch) {
  const auto errors = run_ranks(options_of("mismatch", 2), [&](const BackendPointer& backend) {
    Tensors tensors = {at::zeros({4 + backend->getRank()}, at::kFloat)};
    backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>())->wait(milliseconds(0));
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(has_text(error, "4") && has_text(error, "5")) << error;
  }
}

TEST(Works, OfMessagesKnowTheirSource) {
  run_well(options_of("messages", 3), [](const BackendPointer& backend) {
    Tensors tensors = {at::full({3}, backend->getRank(), at::kFloat)};
    if (backend->getRank() != 0) {
      backend->send(tensors, 0, 7)->wait(milliseconds(0));
      return;
    }
    std::set<int> sources;
    for (int count = 0; count < 2; ++count) {
      const auto work = backend->recvAnysource(tensors, 7);
      work->wait(milliseconds(0));
      EXPECT_EQ(tensors[0][0].item<float>(), work->sourceRank());
      sources.insert(work->sourceRank());
    }
    EXPECT_EQ(sources, (std::set<int>{1, 2}));
  });
}

TEST(Works, OfOneCallAreJoined) {
  run_well(options_of("coalesced", 2), [](const BackendPointer& backend) {
    Tensors first = {at::full({3}, 1, at::kFloat)};
    Tensors second = {at::full({4}, 2, at::kDouble)};
    backend->startCoalescing();
    backend->allreduce(first, asynchronous<c10d::AllreduceOptions>());
    backend->allreduce(second, asynchronous<c10d::AllreduceOptions>());
    const auto work = backend->endCoalescing();
    const auto future = work->getFuture();
    EXPECT_TRUE(work->wait(milliseconds(10'000)));
    future->wait();
    EXPECT_EQ(future->value().toTensorVector().size(), 2U);
    EXPECT_EQ(work->result()[1][3].item<double>(), 4);
  });
}

TEST(Works, AreFollowedByFlightRecords) {
  run_well(options_of("flights", 2), [](const BackendPointer& backend) {
    Tensors tensors = {at::zeros({7}, at::kFloat)};
    backend->broadcast(tensors, asynchronous<c10d::BroadcastOptions>())->wait(milliseconds(0));
  });
  int found = 0;
  for (const FlightRecord& record : FlightRing::of_process().records()) {
    if (record.group == "flights") {
      ++found;
      EXPECT_STREQ(record.name, "broadcast");
      EXPECT_EQ(record.state, FlightState::kCompleted);
      EXPECT_EQ(record.output_sizes, (std::vector<std::vector<int64_t>>{{7}}));
      EXPECT_GE(record.ended_ns, record.created_ns);
    }
  }
  EXPECT_EQ(found, 2);
}

TEST(Groups, ThatAreLeftTakeNothing) {
  const auto errors = run_ranks(options_of("left", 1), [](const BackendPointer& backend) {
    backend->shutdown();
    Tensors tensors = {at::zeros({7}, at::kFloat)};
    backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
  });
  EXPECT_TRUE(has_text(errors[0], "process group left has been shut down")) << errors[0];
}

TEST(Groups, CollectWhoComesToTheMonitoredBarrier) {
  const auto errors = run_ranks(options_of("monitored", 3), [](const BackendPointer& backend) {
    c10d::BarrierOptions options;
    options.timeout = milliseconds(5000);
    backend->monitoredBarrier(options, true);
    if (backend->getRank() == 2) {
      return;
    }
    options.timeout = milliseconds(300);
    backend->monitoredBarrier(options, true);
  });
  EXPECT_TRUE(has_text(errors[0], "Rank 2 failed to pass monitoredBarrier")) << errors[0];
  EXPECT_EQ(errors[2], "");
}

// Memory that has been in use before, or a new block, which is zeros.
bool was_kept(const at::Tensor& block) {
  return std::exchange(*static_cast<uint8_t*>(block.data_ptr()), 7) == 7;
}

at::Tensor block_of(int64_t mebibytes) {
  return allocate(mebibytes << 20, at::kByte);
}

TEST(Memory, IsKeptForTheSizesThatAreInUse) {
  let_go_of_idle_memory();
  {
    const at::Tensor old[] = {block_of(200), block_of(200)};
    EXPECT_FALSE(was_kept(old[0]) || was_kept(old[1]));
  }
  for (const bool is_again : {false, true}) {
    EXPECT_EQ(was_kept(block_of(160)), is_again) << "of 512 MiB one of the old ones' is too much";
  }
  const at::Tensor old[] = {block_of(200), block_of(200)};
  EXPECT_TRUE(was_kept(old[0]));
  EXPECT_FALSE(was_kept(old[1]));
  EXPECT_FALSE(was_kept(block_of(600)));
  EXPECT_FALSE(was_kept(block_of(600)));
  EXPECT_TRUE(was_kept(block_of(160)));
}

TEST(Memory, GoesBackWhenTheLastGroupIsLeft) {
  was_kept(block_of(1));
  EXPECT_TRUE(was_kept(block_of(1)));
  run_well(options_of("last", 2), [](const BackendPointer& /*backend*/) {});
  EXPECT_FALSE(was_kept(block_of(1)));
}

TEST(Completions, RunTasksThatWaitForEachOther) {
  std::promise<void> second_ran;
  std::promise<void> first_ran;
  run_soon([&] {
    second_ran.get_future().wait();
    first_ran.set_value();
  });
  run_soon([&] { second_ran.set_value(); });
  first_ran.get_future().wait();
}

}  // namespace
}  // namespace pleach_torch
