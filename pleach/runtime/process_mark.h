// ProcessMark: tells the process that made it from those that were forked from it.
#pragma once

#include <memory>

namespace pleach {

// A child of fork() has the memory and the descriptors of its parent's objects and none of their
// threads: what ends or speaks in them would wait for nobody, or disturb the parent.
class ProcessMark {
 public:
  ProcessMark();
  // False in a child of the process that made it. Cost: a load.
  bool is_here() const { return page_ == nullptr || *page_ != 0; }

 private:
  std::shared_ptr<const volatile unsigned char> page_;  // zero in children
};

}  // namespace pleach
