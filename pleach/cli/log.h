// Progress of long work, for the person who waits.
#pragma once

#include <string>

namespace pleach {

// One line on the standard error, with the time, when that is a terminal or PLEACH_LOG is set.
void log_step(const std::string& what);

}  // namespace pleach
