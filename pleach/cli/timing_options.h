// What the commands that simulate one collective share.
#pragma once

#include <string>
#include <vector>

#include "pleach/cli/common.h"

namespace pleach {

// --model, --gate, --flow-control, --segments (default `segments`), --landing-places,
// --reduce-bandwidth, --no-fold.
void declare_timing(CommandLine& line, const std::string& segments);
// Of these options, but for --model. Errors: their own, with their names.
Result<TimingRequest> timing_request(const CommandLine& line);
// --model: one or several.
Result<std::vector<std::string>> models_option(const CommandLine& line);

}  // namespace pleach
