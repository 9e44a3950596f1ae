// Threads that call what users have attached to futures, which may wait for other futures.
#pragma once

#include <functional>

namespace pleach_torch {

// Runs `task` soon, in a thread where it may wait for anything: whoever moves operations must not.
// There are as many threads as tasks run at once; one that is idle for a second ends. Thread safe.
void run_soon(std::function<void()> task);

}  // namespace pleach_torch
