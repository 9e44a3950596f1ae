// Dead cells and subnetworks of a FRED switch: their names, and what they take away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/fabric/fred_switch.h"

namespace pleach {

// [2, 0]: subnetwork 0 of subnetwork 2; the outermost level has no path.
std::vector<int32_t> path_to(const FredSize& size, const FredSubnetwork& subnetwork);
std::string name_of(const FredSize& size, const FredSubnetwork& subnetwork);  // "2.0"
// "R3" of the outermost level; "2.0/R1" of subnetwork 0 of its subnetwork 2.
std::string name_of(const FredSize& size, const FredCell& cell);

// Names as above, more by +, "" none: "R3+2.0/R1" and "1+2.0". Both come out ascending.
//   size    passes count_cells(); what it has dead is not looked at
//   errors  kInvalidArgument naming the name and what there is: none of that name, or it twice
Result<FredFaults> parse_faults(const FredSize& size, std::string_view cells,
                                std::string_view subnetworks);

// Whether there is all that `size` has dead, ascending, each once. Errors as parse_faults().
Status check_faults(const FredSize& size);

// Ports that no flow can use, ascending: the cell that they are at is dead.
std::vector<int32_t> dead_inputs(const FredSize& size);
std::vector<int32_t> dead_outputs(const FredSize& size);

// A cell, 0 ≤ number < count_cells(): those of all levels numbered through, without multiplexers.
FredCell cell_at(const FredSize& size, int64_t number);

// "R3 (input ports 6, 7), subnetwork 1": those of the outermost level with their ports.
std::string faults_text(const FredSize& size, const FredFaults& faults);

}  // namespace pleach
