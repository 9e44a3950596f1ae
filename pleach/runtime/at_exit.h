// AtExit: what lives when its process ends, and has something to say then.
#pragma once

#include <functional>

namespace pleach {

// Calls back when the process ends by returning from main or by exit(), unless it is gone by then:
// the one that was made last first. Not in a child of fork() that was made after it. Thread safe;
// its end waits for a callback that is under way in another thread.
class AtExit {
 public:
  explicit AtExit(std::function<void()> callback);
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;
  ~AtExit();

 private:
  struct Process;  // all there are in one
  static Process& this_process();
  static void call_all();

  const std::function<void()> callback_;
  Process& process_;
};

}  // namespace pleach
