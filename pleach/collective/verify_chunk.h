// ChunkPass: the verifier's symbolic pass over one chunk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pleach/collective/order.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// Values are expressions over the ranks' inputs, numbered so that two values are the same
// expression, with the same order of operands, exactly when their numbers are equal: min and max
// choose between 0 and -0, or a number and a NaN, by that order. Not thread safe; one per thread.
// Borrows its arguments.
class ChunkPass {
 public:
  ChunkPass(const Schedule& schedule, const Order& order);

  // Runs the streams that carry the chunk, which are in step order, and checks the outputs. Appends
  // one line per violation, which does not name the chunk, to `violations` while there are fewer
  // than `limit`.
  //   returns  whether all outputs of the chunk are the same expression
  bool run(int32_t chunk, std::span<const int32_t> streams, std::size_t limit,
           std::vector<std::string>& violations);

 private:
  using Expression = int32_t;  // < rank_count: that rank's input; else a sum; kEmpty: nothing
  static constexpr Expression kEmpty = -1;
  struct Sum {
    Expression left = kEmpty;
    Expression right = kEmpty;
  };
  struct Arrival {
    int32_t stream = 0;
    Expression value = kEmpty;
  };

  void start(int32_t chunk);
  // Both return the violation, empty when there is none.
  std::string read_all(std::span<const int32_t> streams);
  std::string commit_all();
  Expression add(Expression left, Expression right);
  void store(int32_t rank, Expression value);
  bool check_outputs(int32_t chunk, std::size_t limit, std::vector<std::string>& violations);
  // What is wrong with the value as the chunk's result; empty when it is right.
  std::string fault(int32_t chunk, Expression value);
  std::string count_contributions(Expression value);

  const Schedule& schedule_;
  const Order& order_;
  int32_t rank_count_;
  std::vector<Expression> slots_;  // by rank
  std::vector<int32_t> touched_;   // ranks whose slot was filled
  std::vector<Sum> sums_;
  std::unordered_map<uint64_t, Expression> known_sums_;
  std::vector<Arrival> arrivals_;  // of the current step
  std::vector<bool> counted_;      // by rank: its contribution was met
  std::vector<Expression> stack_;
};

}  // namespace pleach
