// Times Gloo's all-reduce over TCP on the loopback interface, and checks what it computes. Rank 0
// prints one JSON object a size, as mpi_collectives.c does.
//   usage  gloo_all_reduce ring|bcube|halving_doubling RANK RANKS FOLDER WARMUP ITERATIONS BYTES...
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Job {
  std::shared_ptr<gloo::Context> context;
  std::string algorithm;
  int rank = 0;
  int ranks = 1;
  int warmup = 0;
  int iterations = 1;
};

void time_size(const Job& job, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> input(count);
  std::vector<float> output(count);
  const auto given = [](int rank, std::size_t i) {
    return static_cast<float>((rank + 1) * static_cast<int>(i % 13));
  };
  for (std::size_t i = 0; i < count; ++i) {
    input[i] = given(job.rank, i);
  }
  std::function<void()> run;
  std::unique_ptr<gloo::Algorithm> old;
  if (job.algorithm == "halving_doubling") {
    old = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        job.context, std::vector<float*>{output.data()}, static_cast<int>(count));
    run = [&] { old->run(); };
  } else {
    run = [&] {
      gloo::AllreduceOptions options(job.context);
      options.setAlgorithm(job.algorithm == "ring" ? gloo::AllreduceOptions::Algorithm::RING
                                                   : gloo::AllreduceOptions::Algorithm::BCUBE);
      options.setInput(input.data(), count);
      options.setOutput(output.data(), count);
      using Sum = void (*)(void*, const void*, const void*, std::size_t);
      options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
      gloo::allreduce(options);
    };
  }
  for (int i = 0; i < job.warmup; ++i) {
    run();
  }
  gloo::BarrierOptions barrier(job.context);
  gloo::barrier(barrier);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < job.iterations; ++i) {
    run();
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  long wrong = 0;
  if (old != nullptr) {
    // It works in place: once more, on what is known.
    output = input;
    gloo::barrier(barrier);
    run();
  }
  for (std::size_t i = 0; i < count; ++i) {
    wrong += output[i] != given(job.ranks * (job.ranks + 1) / 2 - 1, i) ? 1 : 0;
  }
  if (job.rank == 0) {
    std::printf("{\"size_bytes\": %zu, \"time_s\": %.9g, \"wrong_count\": %ld}\n", bytes,
                taken.count() / job.iterations, wrong);
    std::fflush(stdout);
  }
  gloo::barrier(barrier);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    return 2;
  }
  Job job;
  job.algorithm = argv[1];
  job.rank = std::atoi(argv[2]);
  job.ranks = std::atoi(argv[3]);
  job.warmup = std::atoi(argv[5]);
  job.iterations = std::atoi(argv[6]);
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(job.rank, job.ranks);
  gloo::rendezvous::FileStore store(argv[4]);
  context->connectFullMesh(store, device);
  job.context = context;
  for (int size = 7; size < argc; ++size) {
    time_size(job, std::strtoul(argv[size], nullptr, 10));
  }
  return 0;
}
