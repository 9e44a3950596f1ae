// Communicator groups of Chakra traces, as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// By name; no ranks: all.
using ChakraGroups = std::map<std::string, std::vector<int32_t>, std::less<>>;

// {"0": [0, 1], ...}. Errors: kInvalidArgument in one line that starts with `path`.
Result<ChakraGroups> parse_chakra_groups(std::string_view json, const std::string& path);
// Adds those of [{"pg_name": "0", "ranks": [0, 1]}, ...]; text of another form, which metadata may
// hold, is passed over.
void add_metadata_groups(std::string_view json, ChakraGroups& groups);

}  // namespace pleach
