// JSON that others wrote, read whole.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "pleach/base/result.h"

namespace pleach {

// Errors: kInvalidArgument in one line that starts with `where`: the line and column of what is no
// JSON; a key that is there twice, more than 8 levels.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view where);

}  // namespace pleach
