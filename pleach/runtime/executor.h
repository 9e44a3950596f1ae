// Executor: runs one rank's program over a transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/program.h"
#include "pleach/collective/record.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// One run of a program.
struct Operation {
  uint64_t sequence = 1;     // 1, 2, ... the same on all ranks
  uint64_t fingerprint = 0;  // of what the ranks must agree on
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;              // the base of Buffer::kInput
  std::byte* output = nullptr;                   // the base of Buffer::kOutput
  int32_t landing_places = 4;                    // per connection, ≥ 1
  Duration deadline = std::chrono::seconds(30);  // for peers to begin, and between events
  Record* record = nullptr;                      // appended to when set
  Rank* culprit = nullptr;                       // set to the rank that an error is about, if any
};

// The doors to the world.
struct ExecutorWorld {
  Transport& transport;
  const Clock& clock;
};

// Holds what the program implies and every run needs: made once per program, used by one thread.
class Executor {
 public:
  explicit Executor(Program program);
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  const Program& program() const;

  // Runs the program: returns when every segment has left and arrived and the output is complete.
  // Sends the ready segment with the smallest (segment·period + step, segment, first chunk) of each
  // connection that the landing places admit; folds what has arrived, as the order permits.
  //   errors  kTimeout naming the peers it waits for; kPeerLost; kIo; kInvalidArgument: a peer runs
  //           another request. Telling the other ranks is the caller's.
  //   source  docs/architecture.md, "No deadlock with bounded buffers"
  Status run(const ExecutorWorld& world, const Operation& operation);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pleach
