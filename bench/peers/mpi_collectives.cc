// Times one collective of an MPI library, out of place, and checks what it computes. Rank 0 prints
// one JSON object a size: bytes (of the whole buffer), seconds of an iteration (averaged over
// iterations, of the slowest rank), wrong elements.
//   usage  mpi_collectives COLLECTIVE WARMUP ITERATIONS BYTES...
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// What a rank gives: small numbers, so that every order of sums is exact.
float given(long rank, long element) {
  return static_cast<float>((rank + 1) * (element % 13));
}

class Collective {
 public:
  Collective(std::string what, int rank, int ranks)
      : what_(std::move(what)), rank_(rank), ranks_(ranks) {}

  void start(long count) {
    count_ = count;
    shard_ = count / ranks_;
    input_.resize(static_cast<std::size_t>(count));
    output_.assign(input_.size(), 0);
    for (long i = 0; i < count; ++i) {
      input_[static_cast<std::size_t>(i)] = given(rank_, i);
    }
    if (what_ == "broadcast" && rank_ == 0) {
      output_ = input_;
    }
  }

  void run() {
    const auto shard = static_cast<int>(shard_);
    const auto count = static_cast<int>(count_);
    if (what_ == "all_reduce") {
      MPI_Allreduce(input_.data(), output_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (what_ == "reduce_scatter") {
      MPI_Reduce_scatter_block(input_.data(), output_.data(), shard, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    } else if (what_ == "all_gather") {
      MPI_Allgather(input_.data(), shard, MPI_FLOAT, output_.data(), shard, MPI_FLOAT,
                    MPI_COMM_WORLD);
    } else if (what_ == "all_to_all") {
      MPI_Alltoall(input_.data(), shard, MPI_FLOAT, output_.data(), shard, MPI_FLOAT,
                   MPI_COMM_WORLD);
    } else if (what_ == "broadcast") {
      MPI_Bcast(output_.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    } else {
      std::fprintf(stderr, "unknown collective %s\n", what_.c_str());
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }

  long count_wrong() const {
    const long held = what_ == "reduce_scatter"                       ? shard_
                      : what_ == "all_reduce" || what_ == "broadcast" ? count_
                                                                      : shard_ * ranks_;
    long wrong = 0;
    for (long i = 0; i < held; ++i) {
      wrong += output_[static_cast<std::size_t>(i)] == expected(i) ? 0 : 1;
    }
    return wrong;
  }

 private:
  float expected(long i) const {
    const long sum = static_cast<long>(ranks_) * (ranks_ + 1) / 2;
    if (what_ == "all_reduce") {
      return given(sum - 1, i);
    }
    if (what_ == "reduce_scatter") {
      return given(sum - 1, rank_ * shard_ + i);
    }
    if (what_ == "all_gather") {
      return given(i / shard_, i % shard_);
    }
    if (what_ == "all_to_all") {
      return given(i / shard_, rank_ * shard_ + i % shard_);
    }
    return given(0, i);
  }

  std::string what_;
  int rank_;
  int ranks_;
  long count_ = 0;
  long shard_ = 0;
  std::vector<float> input_, output_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 5) {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Collective collective(argv[1], rank, ranks);
  const int warmup = std::atoi(argv[2]);
  const int iterations = std::atoi(argv[3]);
  for (int size = 4; size < argc; ++size) {
    const long bytes = std::atol(argv[size]);
    collective.start(bytes / static_cast<long>(sizeof(float)));
    for (int i = 0; i < warmup; ++i) {
      collective.run();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) {
      collective.run();
    }
    const double taken = (MPI_Wtime() - begin) / iterations;
    const long wrong = collective.count_wrong();
    double slowest = 0;
    long all_wrong = 0;
    MPI_Reduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      std::printf("{\"size_bytes\": %ld, \"time_s\": %.9g, \"wrong_count\": %ld}\n", bytes, slowest,
                  all_wrong);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
