#include "pleach/runtime/executor.h"

#include <utility>
#include <vector>

#include "pleach/runtime/program_index.h"

namespace pleach {

struct Executor::State {
  explicit State(Program program) : index(std::move(program)), run(index) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ProgramIndex index;
  CollectiveRun run;
  std::vector<TransportEvent> events;  // of one poll
};

Executor::Executor(Program program) : state_(std::make_unique<State>(std::move(program))) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

const Program& Executor::program() const {
  return state_->index.program();
}

Status Executor::run(const ExecutorWorld& world, const Operation& operation) {
  CollectiveRun& run = state_->run;
  std::vector<TransportEvent>& events = state_->events;
  PLEACH_TRY(run.start(operation, world.transport, world.clock.now()));
  while (!run.is_done()) {
    events.clear();
    PLEACH_TRY(world.transport.poll(events, run.expiry()));
    for (const TransportEvent& event : events) {
      PLEACH_TRY(run.handle(event));
    }
    PLEACH_TRY(run.proceed(world.clock.now()));
  }
  return ok();
}

}  // namespace pleach
