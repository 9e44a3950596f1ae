// Small text helpers that the standard library lacks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// Splits at every `separator`; "" gives one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(std::span<const std::string> pieces, std::string_view separator);
// "flow", "analytic or flow", "sum, product or min": what a reader may choose from.
std::string alternatives(std::span<const std::string> pieces);
std::string_view trim(std::string_view text);

// A whole decimal integer in [least, most]; the error names `what`, the text and the range.
Result<int64_t> parse_integer(std::string_view text, std::string_view what, int64_t least,
                              int64_t most);
// The same, of what is counted in an int32_t.
Result<int32_t> parse_count(std::string_view text, std::string_view what, int32_t least,
                            int32_t most);

// Whether `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

// `text` made safe for a one-line message: control bytes and malformed UTF-8 as \xNN.
std::string one_line(std::string_view text);
// `text` in single quotes and made safe for a one-line message: control bytes and malformed UTF-8
// as \xNN, more than 80 letters cut. Qualify it (pleach::quoted) for a std::string: <iomanip> has
// another one.
std::string quoted(std::string_view text);

// "unknown WHAT 'rnig'; did you mean 'ring'? known: ring, torus".
//   meant  the known one that is another word for `name`; empty: the one of the nearest spelling
Error unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                   std::string_view meant = {});

}  // namespace pleach
