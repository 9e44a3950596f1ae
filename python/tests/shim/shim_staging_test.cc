// Tensors of a device on their way through the host's memory, on a device that a test can slow down
// and stop. Ranks are threads of this process.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "python/tests/shim/fake_device.h"
#include "python/tests/shim/ranks.h"

namespace pleach_torch {
namespace {

using std::chrono::milliseconds;
using Values = std::shared_ptr<std::vector<float>>;

constexpr int64_t kTestChunkBytes = 256;  // 64 elements

class Staging : public ::testing::Test {
 protected:
  Staging() {
    fake_device::install();
    fake_device::set_seed(0);
  }
  ~Staging() override {
    fake_device::on_pinned({});
    fake_device::release_all();
    fake_device::synchronize();
    fake_device::set_broken(false);
  }

  static JoinOptions options(const char* name, int rank_count) {
    JoinOptions options = options_of(name, rank_count);
    options.chunk_bytes = kTestChunkBytes;
    return options;
  }
};

// Every rank computes on a stream of its own.
using Body = std::function<void(const BackendPointer&)>;
Body on_own_stream(const Body& body) {
  return [body](const BackendPointer& backend) {
    const c10::StreamGuard guard(fake_device::new_stream());
    body(backend);
  };
}

std::vector<float> sequence(int64_t size, float begin, float step = 1) {
  std::vector<float> values(size);
  for (int64_t index = 0; index < size; ++index) {
    values[index] = static_cast<float>(index) * step + begin;
  }
  return values;
}

// Whether it comes to be so.
template <typename Condition>
bool await(const Condition& condition) {
  for (int times = 0; times < 2000 && !condition(); ++times) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return condition();
}

void append(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

// Lets the caller's stream read the tensor when the work's wait() allows it, then spoils it.
Values read_after(const WorkPointer& work, const at::Tensor& tensor) {
  work->wait(milliseconds(0));
  Values values = fake_device::read(tensor);
  fake_device::fill(tensor, fake_device::kPoison, 0);
  return values;
}

void expect(const Values& values, const std::vector<float>& wanted) {
  c10::Stream stream = fake_device::current_stream();
  stream.synchronize();
  EXPECT_EQ(*values, wanted);
}

void all_reduces(const BackendPointer& backend, int64_t size) {
  const auto rank = static_cast<float>(backend->getRank());
  const auto count = static_cast<float>(backend->getSize());
  Tensors tensors = {fake_device::empty({size})};
  fake_device::fill(tensors[0], rank);
  const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
  expect(read_after(work, tensors[0]), sequence(size, count * (count - 1) / 2, count));
}

void reduces(const BackendPointer& backend, int64_t size) {
  auto options = asynchronous<c10d::ReduceOptions>();
  options.rootRank = 1;
  Tensors tensors = {fake_device::empty({size})};
  fake_device::fill(tensors[0], 2);
  const auto work = backend->reduce(tensors, options);
  const Values values = read_after(work, tensors[0]);
  const auto times = static_cast<float>(backend->getRank() == 1 ? backend->getSize() : 1);
  expect(values, sequence(size, 2 * times, times));
}

void broadcasts(const BackendPointer& backend, int64_t size) {
  auto options = asynchronous<c10d::BroadcastOptions>();
  options.rootRank = 1;
  Tensors tensors = {fake_device::empty({size})};
  // What others have there is written before what comes.
  fake_device::fill(tensors[0], backend->getRank() == 1 ? 5 : fake_device::kPoison);
  expect(read_after(backend->broadcast(tensors, options), tensors[0]), sequence(size, 5));
}

// In place, as FSDP2 has it.
void gathers_in_place(const BackendPointer& backend, int64_t size) {
  at::Tensor whole = fake_device::empty({size * backend->getSize()});
  at::Tensor part = whole.narrow(0, backend->getRank() * size, size);
  fake_device::fill(part, static_cast<float>(backend->getRank() * size));
  const auto work = backend->_allgather_base(whole, part, asynchronous<c10d::AllgatherOptions>());
  expect(read_after(work, whole), sequence(size * backend->getSize(), 0));
}

// What is read lies elsewhere in what is written.
void gathers_over_itself(const BackendPointer& backend, int64_t size) {
  at::Tensor whole = fake_device::empty({size * backend->getSize()});
  at::Tensor part = whole.narrow(0, size / 3 + 1, size);
  fake_device::fill(part, static_cast<float>(backend->getRank() * size));
  const auto work = backend->_allgather_base(whole, part, asynchronous<c10d::AllgatherOptions>());
  expect(read_after(work, whole), sequence(size * backend->getSize(), 0));
}

void gathers_uneven_lists(const BackendPointer& backend, int64_t size) {
  std::vector<Tensors> outputs(1);
  for (int rank = 0; rank < backend->getSize(); ++rank) {
    outputs[0].push_back(fake_device::empty({size + 7 * rank}));
  }
  Tensors inputs = {fake_device::empty({size + 7 * backend->getRank()})};
  fake_device::fill(inputs[0], static_cast<float>(1000 * backend->getRank()));
  const auto work = backend->allgather(outputs, inputs, asynchronous<c10d::AllgatherOptions>());
  for (int rank = 0; rank < backend->getSize(); ++rank) {
    expect(read_after(work, outputs[0][rank]),
           sequence(size + 7 * rank, static_cast<float>(1000 * rank)));
  }
}

void gathers_to_root(const BackendPointer& backend, int64_t size) {
  const bool is_root = backend->getRank() == 0;
  std::vector<Tensors> outputs;
  for (int rank = 0; rank < backend->getSize() && is_root; ++rank) {
    outputs.resize(1);
    outputs[0].push_back(fake_device::empty({size}));
  }
  Tensors inputs = {fake_device::empty({size})};
  fake_device::fill(inputs[0], static_cast<float>(backend->getRank()));
  const auto work = backend->gather(outputs, inputs, asynchronous<c10d::GatherOptions>());
  work->wait(milliseconds(0));
  for (int rank = 0; rank < backend->getSize() && is_root; ++rank) {
    expect(read_after(work, outputs[0][rank]), sequence(size, static_cast<float>(rank)));
  }
}

void scatters(const BackendPointer& backend, int64_t size) {
  const bool is_root = backend->getRank() == 0;
  std::vector<Tensors> inputs;
  for (int rank = 0; rank < backend->getSize() && is_root; ++rank) {
    inputs.resize(1);
    inputs[0].push_back(fake_device::empty({size}));
    fake_device::fill(inputs[0].back(), static_cast<float>(rank));
  }
  Tensors outputs = {fake_device::empty({size})};
  const auto work = backend->scatter(outputs, inputs, asynchronous<c10d::ScatterOptions>());
  expect(read_after(work, outputs[0]), sequence(size, static_cast<float>(backend->getRank())));
}

void reduce_scatters(const BackendPointer& backend, int64_t size) {
  const auto count = static_cast<float>(backend->getSize());
  at::Tensor whole = fake_device::empty({size * backend->getSize()});
  fake_device::fill(whole, static_cast<float>(backend->getRank()));
  at::Tensor part = whole.narrow(0, backend->getRank() * size, size);  // in place
  const auto work =
      backend->_reduce_scatter_base(part, whole, asynchronous<c10d::ReduceScatterOptions>());
  expect(read_after(work, part),
         sequence(size,
                  count * (count - 1) / 2 + count * static_cast<float>(backend->getRank() * size),
                  count));
}

void moves_several(const BackendPointer& backend, int64_t size) {
  Tensors wholes;
  Tensors parts;
  for (const int64_t one : {size, int64_t{3}, size / 2}) {
    wholes.push_back(fake_device::empty({one * backend->getSize()}));
    parts.push_back(fake_device::empty({one}));
    fake_device::fill(parts.back(), static_cast<float>(backend->getRank() * one));
  }
  const auto work = backend->allgather_into_tensor_coalesced(
      wholes, parts, asynchronous<c10d::AllgatherOptions>());
  for (const at::Tensor& whole : wholes) {
    expect(read_after(work, whole), sequence(whole.numel(), 0));
  }
}

void exchanges(const BackendPointer& backend, int64_t size) {
  const int count = backend->getSize();
  at::Tensor input = fake_device::empty({size * count});
  at::Tensor output = fake_device::empty({size * count});
  fake_device::fill(input, static_cast<float>(10'000 * backend->getRank()));
  std::vector<int64_t> splits;
  const auto work =
      backend->alltoall_base(output, input, splits, splits, asynchronous<c10d::AllToAllOptions>());
  std::vector<float> wanted;
  for (int rank = 0; rank < count; ++rank) {
    append(wanted, sequence(size, static_cast<float>(10'000 * rank + size * backend->getRank())));
  }
  expect(read_after(work, output), wanted);
}

void moves_strided(const BackendPointer& backend, int64_t size) {
  const at::Tensor memory = fake_device::empty({size, 2});
  Tensors tensors = {memory.t()};
  fake_device::fill(tensors[0], 1);
  const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
  const auto count = static_cast<float>(backend->getSize());
  expect(read_after(work, tensors[0]), sequence(2 * size, count, count));
}

void sends_around(const BackendPointer& backend, int64_t size) {
  const int count = backend->getSize();
  const int next = (backend->getRank() + 1) % count;
  const int previous = (backend->getRank() + count - 1) % count;
  Tensors sent = {fake_device::empty({size})};
  Tensors received = {fake_device::empty({size})};
  fake_device::fill(sent[0], static_cast<float>(backend->getRank()));
  const auto receives = backend->recv(received, previous, 3);
  const auto sends = backend->send(sent, next, 3);
  expect(read_after(receives, received[0]), sequence(size, static_cast<float>(previous)));
  EXPECT_EQ(receives->sourceRank(), previous);
  sends->wait(milliseconds(0));
}

// Memory is let go at once: what travels may not be given to others.
void drops_what_it_moves(const BackendPointer& backend, int64_t size) {
  at::Tensor kept = fake_device::empty({size});
  {
    Tensors tensors = {fake_device::empty({size})};
    fake_device::fill(tensors[0], 3);
    backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
  }
  Tensors tensors = {kept};
  fake_device::fill(kept, 1);
  const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
  const auto count = static_cast<float>(backend->getSize());
  expect(read_after(work, kept), sequence(size, count, count));
}

// Of the host and of the device, called in one order.
void mixes_devices(const BackendPointer& backend, int64_t size) {
  const auto count = static_cast<float>(backend->getSize());
  Tensors on_device = {fake_device::empty({size})};
  Tensors on_host = {at::full({size}, 2, at::kFloat)};
  fake_device::fill(on_device[0], 1);
  const auto first = backend->allreduce(on_device, asynchronous<c10d::AllreduceOptions>());
  const auto second = backend->allreduce(on_host, asynchronous<c10d::AllreduceOptions>());
  Tensors at_once = {at::full({2}, 4, at::kFloat)};
  c10d::AllreduceOptions blocking;
  blocking.asyncOp = false;
  backend->allreduce(at_once, blocking)->wait(milliseconds(0));
  second->wait(milliseconds(0));
  EXPECT_EQ(on_host[0][0].item<float>(), 2 * count);
  EXPECT_EQ(at_once[0][1].item<float>(), 4 * count);
  expect(read_after(first, on_device[0]), sequence(size, count, count));
}

struct Case {
  const char* name;
  void (*run)(const BackendPointer&, int64_t size);
};
constexpr Case kCases[] = {
    {"all_reduce", &all_reduces},
    {"reduce", &reduces},
    {"broadcast", &broadcasts},
    {"all_gather in place", &gathers_in_place},
    {"all_gather over itself", &gathers_over_itself},
    {"all_gather of uneven lists", &gathers_uneven_lists},
    {"gather", &gathers_to_root},
    {"scatter", &scatters},
    {"reduce_scatter in place", &reduce_scatters},
    {"all_gather of several", &moves_several},
    {"all_to_all", &exchanges},
    {"strided", &moves_strided},
    {"messages", &sends_around},
    {"dropped", &drops_what_it_moves},
    {"mixed", &mixes_devices},
};

TEST_F(Staging, GivesTheSameInWhateverOrderTheDeviceWorks) {
  uint64_t seed = 0;
  for (const int rank_count : {2, 3}) {
    run_well(options("orders", rank_count), on_own_stream([&](const BackendPointer& backend) {
               for (int round = 0; round < 100; ++round) {
                 if (backend->getRank() == 0) {
                   fake_device::set_seed(++seed);
                 }
                 const Case& one = kCases[round % std::size(kCases)];
                 SCOPED_TRACE(c10::str(one.name, ", round ", round));
                 one.run(backend, round % 3 == 0 ? 1 : 37 * (round % 11) + 70);
               }
             }));
  }
}

TEST_F(Staging, ReturnsWhileTheDeviceHasWrittenNothing) {
  run_well(options("held", 2), on_own_stream([](const BackendPointer& backend) {
             // Only this stream is held, as if a kernel before the gradient's took long.
             fake_device::hold(fake_device::current_stream());
             Tensors tensors = {fake_device::empty({1000})};
             fake_device::fill(tensors[0], 1);
             const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
             const auto future = work->getFuture();
             EXPECT_FALSE(work->isCompleted());
             EXPECT_FALSE(future->completed());
             EXPECT_THROW(work->wait(milliseconds(20)), c10::DistBackendError);
             EXPECT_FALSE(work->isCompleted());
             fake_device::release_all();
             expect(read_after(work, tensors[0]), sequence(1000, 2, 2));
             EXPECT_TRUE(work->wait(milliseconds(5000)));
             EXPECT_TRUE(work->isCompleted());
             future->wait();
             EXPECT_TRUE(future->value().toTensorVector()[0].is_same(tensors[0]));
           }));
}

TEST_F(Staging, LetsTheStreamWaitForWhatIsOnItsWayBack) {
  run_well(options("back", 1), on_own_stream([](const BackendPointer& backend) {
             Tensors tensors = {fake_device::empty({100})};
             fake_device::fill(tensors[0], 1);
             fake_device::synchronize();
             const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
             work->wait(milliseconds(0));
             fake_device::hold_all();
             // wait() has returned, or does: the host is not held up by the device.
             Tensors more = {fake_device::empty({100})};
             const Values values = fake_device::read(tensors[0]);
             EXPECT_TRUE(values->empty());
             fake_device::release_all();
             expect(values, sequence(100, 1));
           }));
}

TEST_F(Staging, TellsOfResultsThatAreOnTheirWayBack) {
  std::promise<void> is_held;
  run_well(options("results", 2), on_own_stream([&](const BackendPointer& backend) {
             if (backend->getRank() == 1) {
               Tensors host = {at::full({7}, 3.0F)};
               is_held.get_future().wait();
               backend->send(host, 0, 0)->wait(milliseconds(0));
               return;
             }
             Tensors tensors = {fake_device::empty({7})};
             fake_device::hold_all();
             is_held.set_value();
             const auto work = backend->recv(tensors, 1, 0);
             work->wait(milliseconds(0));
             EXPECT_FALSE(work->isCompleted());
             EXPECT_TRUE(work->result()[0].is_same(tensors[0]));
             fake_device::release_all();
             expect(read_after(work, tensors[0]), std::vector<float>(7, 3));
           }));
}

TEST_F(Staging, KeepsFewChunksInTheHostsMemory) {
  run_well(options("window", 2), on_own_stream([](const BackendPointer& backend) {
             if (backend->getRank() == 0) {
               fake_device::reset_pinned_peak();
             }
             for (int round = 0; round < 3; ++round) {
               all_reduces(backend, 64 * 100);
             }
           }));
  EXPECT_LE(fake_device::pinned_peak_bytes(), 2 * kMostChunks * kTestChunkBytes);
  EXPECT_TRUE(await([] { return fake_device::pinned_bytes() == 0; }));
}

TEST_F(Staging, EndsOnAllRanksWhereTheyAskForDifferentThings) {
  const auto errors = run_ranks(
      options("differing", 2), on_own_stream([](const BackendPointer& backend) {
        Tensors tensors = {fake_device::empty({300 + backend->getRank()})};
        fake_device::fill(tensors[0], 1);
        const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
        const auto future = work->getFuture();
        try {
          work->wait(milliseconds(0));
        } catch (...) {
          EXPECT_FALSE(work->isSuccess());
          EXPECT_NE(work->exception(), nullptr);
          EXPECT_THROW(future->waitAndThrow(), std::exception);
          throw;
        }
      }));
  for (const std::string& error : errors) {
    EXPECT_TRUE(has_text(error, "all_reduce 1 of group differing")) << error;
  }
}

TEST_F(Staging, IsAbortedWithCopiesInFlight) {
  const auto errors = run_ranks(
      options("abort", 2), on_own_stream([](const BackendPointer& backend) {
        fake_device::hold_all();
        WorkPointer work;
        {
          Tensors tensors = {fake_device::empty({1000})};
          fake_device::fill(tensors[0], 1);
          work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
        }
        Tensors on_host = {at::zeros({3}, at::kFloat)};
        const auto after = backend->allreduce(on_host, asynchronous<c10d::AllreduceOptions>());
        EXPECT_TRUE(await([] { return fake_device::pinned_bytes() > 0; }));
        std::thread aborts([&] { backend->abort(); });
        EXPECT_THROW(after->wait(milliseconds(0)), c10::DistBackendError);
        aborts.join();
        work->wait(milliseconds(0));
      }));
  for (const std::string& error : errors) {
    EXPECT_TRUE(has_text(error, "abort")) << error;
  }
  EXPECT_GT(fake_device::pinned_bytes(), 0) << "the device may still write there";
  fake_device::release_all();
  fake_device::synchronize();
  EXPECT_TRUE(await([] { return fake_device::pinned_bytes() == 0; }));
}

TEST_F(Staging, IsAbortedWhileItTravels) {
  std::promise<void> is_over;
  const std::shared_future<void> over = is_over.get_future().share();
  const auto errors = run_ranks(
      options("travels", 2), on_own_stream([&](const BackendPointer& backend) {
        if (backend->getRank() == 1) {
          over.wait();
          return;
        }
        Tensors tensors = {fake_device::empty({1000})};
        fake_device::fill(tensors[0], 1);
        const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
        fake_device::synchronize();
        wait_while_aborted(work, is_over);
      }));
  EXPECT_TRUE(has_text(errors[0], "aborted")) << errors[0];
}

TEST_F(Staging, TellsThatTheDeviceDidNotWrite) {
  JoinOptions wanted = options("late", 2);
  wanted.carrier.timeout_ms = 400;
  const auto errors = run_ranks(
      wanted, on_own_stream([](const BackendPointer& backend) {
        if (backend->getRank() == 0) {
          fake_device::hold(fake_device::current_stream());
        }
        Tensors tensors = {fake_device::empty({100})};
        fake_device::fill(tensors[0], 1);
        backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>())->wait(milliseconds(0));
      }));
  EXPECT_TRUE(has_text(errors[0], "its device has not written what it reads") ||
              has_text(errors[0], "rank 1"))
      << errors[0];
  EXPECT_NE(errors[1], "");
}

// Otherwise the next one would meet what other ranks have in its place.
TEST_F(Staging, EndsItsGroupWhereOneRankFails) {
  std::promise<void> is_over;
  const std::shared_future<void> over = is_over.get_future().share();
  const auto errors = run_ranks(
      options("memory", 2), on_own_stream([&](const BackendPointer& backend) {
        std::vector<Tensors> tensors;
        std::vector<WorkPointer> works;
        const auto calls_twice = [&] {
          for (int index = 0; index < 2; ++index) {
            tensors.push_back({fake_device::empty({2 * 64})});
            fake_device::fill(tensors.back()[0], static_cast<float>(index));
            works.push_back(
                backend->allreduce(tensors.back(), asynchronous<c10d::AllreduceOptions>()));
          }
        };
        if (backend->getRank() == 1) {
          over.wait();
          calls_twice();
        } else {
          fake_device::on_pinned([times = 0](size_t /*bytes*/) mutable {
            TORCH_CHECK(++times != 2, "no pinned memory");  // for the first one's second chunk
          });
          calls_twice();
          EXPECT_TRUE(await([&] { return works[0]->isCompleted(); }));
          is_over.set_value();
        }
        EXPECT_THROW(works[1]->wait(milliseconds(0)), c10::DistBackendError);
        works[0]->wait(milliseconds(0));
      }));
  for (const std::string& error : errors) {
    EXPECT_TRUE(has_text(error, "all_reduce 1 of group memory") &&
                has_text(error, "no pinned memory"))
        << error;
  }
}

TEST_F(Staging, IsNotOvertakenByWhatDoesNotWait) {
  const auto errors = run_ranks(
      options("overtaken", 1), on_own_stream([](const BackendPointer& backend) {
        fake_device::hold(fake_device::current_stream());
        Tensors on_device = {fake_device::empty({100})};
        fake_device::fill(on_device[0], 1);
        const auto first = backend->allreduce(on_device, asynchronous<c10d::AllreduceOptions>());
        Tensors on_host = {at::zeros({3}, at::kFloat)};
        c10d::AllreduceOptions hasty;
        hasty.asyncOp = false;
        hasty.timeout = milliseconds(50);
        try {
          backend->allreduce(on_host, hasty);
          ADD_FAILURE() << "the one before has not been started";
        } catch (const c10::DistBackendError& error) {
          EXPECT_TRUE(has_text(error.what(),
                               "all_reduce 2 of group overtaken, with a timeout of 50 ms: what was "
                               "called before it has not been started"))
              << error.what();
        }
        first->wait(milliseconds(0));
      }));
  EXPECT_TRUE(has_text(errors[0], "all_reduce 2 of group overtaken")) << errors[0];
}

TEST_F(Staging, LetsGoOfItsMemoryWhereTheDeviceFails) {
  const auto errors = run_ranks(
      options("broken", 1), on_own_stream([](const BackendPointer& backend) {
        fake_device::hold_all();
        Tensors tensors = {fake_device::empty({1000})};
        const auto work = backend->allreduce(tensors, asynchronous<c10d::AllreduceOptions>());
        EXPECT_TRUE(await([] { return fake_device::pinned_bytes() > 0; }));
        fake_device::set_broken(true);
        work->wait(milliseconds(0));
      }));
  EXPECT_TRUE(has_text(errors[0], "the device has failed")) << errors[0];
  EXPECT_TRUE(await([] { return fake_device::pinned_bytes() == 0; }));
}

TEST_F(Staging, LooksAtTheDeviceBeforeItSaysThatItIsLate) {
  run_well(options("stopped", 1), on_own_stream([](const BackendPointer& backend) {
             // As if the process had been stopped, when the first chunk is on its way out.
             fake_device::on_pinned([times = 0](size_t /*bytes*/) mutable {
               if (++times == 2) {
                 std::this_thread::sleep_for(milliseconds(800));
               }
             });
             auto options = asynchronous<c10d::AllreduceOptions>();
             options.timeout = milliseconds(600);
             Tensors tensors = {fake_device::empty({2 * 64})};
             fake_device::fill(tensors[0], 1);
             expect(read_after(backend->allreduce(tensors, options), tensors[0]),
                    sequence(2 * 64, 1));
           }));
}

TEST_F(Staging, OffersMemoryOfTheHostAlone) {
  run_well(options("offered", 1), [](const BackendPointer& backend) {
    const at::Tensor on_device = fake_device::empty({4});
    EXPECT_TRUE(backend->supportsTensorAlloc(at::zeros({4}).device().index()));
    EXPECT_FALSE(backend->supportsTensorAlloc(on_device.device().index()));
    EXPECT_THROW(backend->allocateTensor(4, on_device.options()), c10::NotImplementedError);
  });
}

TEST_F(Staging, RefusesWhatItCannotTake) {
  run_well(options("refused", 1), on_own_stream([](const BackendPointer& backend) {
             Tensors mixed = {fake_device::empty({4}), at::zeros({4}, at::kFloat)};
             EXPECT_THROW(backend->allreduce_coalesced(mixed, {}), c10::Error);
             at::Tensor whole = at::zeros({4}, at::kFloat);
             EXPECT_THROW(backend->_allgather_base(whole, mixed[0], {}), c10::Error);
             all_reduces(backend, 10);
           }));
}

}  // namespace
}  // namespace pleach_torch
