// The version of this library.
#pragma once

#include <string_view>

namespace pleach {

// "0.1.0", as CMakeLists.txt has it.
std::string_view version();

}  // namespace pleach
