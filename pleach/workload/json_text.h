// JSON that others wrote, read whole.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "pleach/base/result.h"

namespace pleach {

// Errors: kInvalidArgument in one line that starts with `where`: the line and column of what is no
// JSON; a key that is there twice, more than 8 levels.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view where);

// "WHERE:LINE:COLUMN" of what `pointer` names in `text`, which parse_json() has read, or of the
// innermost value around it where it is not there. Walks the text: for what is wrong with a value.
std::string json_place(std::string_view text, std::string_view where,
                       const nlohmann::json::json_pointer& pointer);

// A value as a message shows it; arrays and objects may be huge.
std::string shown(const nlohmann::json& value);

}  // namespace pleach
