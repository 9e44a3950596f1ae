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

// Reads a file of them, as ASTRA-sim has it, {"0": [0, 1], ...}, for the traces of `rank_count`
// ranks.
//   errors  kIo; kInvalidArgument with file, line and column: no such JSON, no such rank, a rank
//           that is in a group twice
Result<ChakraGroups> read_chakra_groups(const std::string& path, int32_t rank_count);
// Adds those of [{"pg_name": "0", "ranks": [0, 1]}, ...]; text of another form, which metadata may
// hold, is passed over.
void add_metadata_groups(std::string_view json, ChakraGroups& groups);

}  // namespace pleach
