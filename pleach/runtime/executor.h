// Executor: runs one rank's program over a transport.
#pragma once

#include <memory>

#include "pleach/base/result.h"
#include "pleach/collective/program.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/collective_run.h"
#include "pleach/runtime/transport.h"

namespace pleach {

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

  // Runs the program and waits: returns when the run is done.
  //   errors  those of CollectiveRun and of the transport's poll()
  Status run(const ExecutorWorld& world, const Operation& operation);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pleach
