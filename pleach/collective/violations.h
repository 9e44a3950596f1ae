// Violations: lines of form rules that are broken; and the rules that look at one number at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// Lines of violations, up to a limit.
class Violations {
 public:
  explicit Violations(std::size_t limit) : limit_(limit) {}

  void add(std::string line) {
    if (!full()) {
      lines_.push_back(std::move(line));
    }
  }
  // Adds "transfers[17] (chunks [3, 5), node 0 -> node 1, reduce, step 4): WHY".
  void add(const Schedule& schedule, std::size_t transfer, const std::string& why);
  bool full() const { return lines_.size() >= limit_; }
  bool empty() const { return lines_.empty(); }
  std::vector<std::string> take() && { return std::move(lines_); }

 private:
  std::size_t limit_;
  std::vector<std::string> lines_;
};

// Checks limits and ranges: all that must hold before tables may be indexed by the schedule's
// numbers. Safe on any values. The first part of check_form, and what files are held to on reading.
void check_ranges(const Schedule& schedule, Violations& violations);

// What every format does first to write, so that no file is written that cannot be read.
Status refuse_bad_ranges(const Schedule& schedule);

// What every format does last to read: checks ranges and sorts the transfers. The error is one
// line, "PATH: transfers[17] (...): step ...".
Result<Schedule> finish_reading(Schedule schedule, const std::string& path);

}  // namespace pleach
