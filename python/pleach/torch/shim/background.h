// Threads that let go of what waits for other ranks when it ends.
#pragma once

#include <chrono>
#include <functional>

namespace pleach_torch {

// Does it in a thread of its own. When the process ends it is left undone.
void run_in_background(std::function<void()> task);

// Waits for all that are under way; false where one still is after that.
bool await_background(std::chrono::steady_clock::time_point deadline);

}  // namespace pleach_torch
