// Ranks as processes of this machine.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/cli/command.h"
#include "pleach/runtime/clock.h"

namespace pleach {

// Starts this command line again, once per rank, and waits for all; says who was ended by a signal.
Result<ExitCode> start_again(const Invocation& invocation, const std::string& command,
                             int32_t rank_count, Duration deadline);

}  // namespace pleach
