#include "pleach/base/ranges.h"

#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {

Result<std::vector<int32_t>> parse_ranges(std::string_view text, std::string_view what,
                                          int32_t last) {
  std::vector<int32_t> numbers;
  std::vector<bool> is_there(at(last) + 1);
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const std::string_view first = dash == 0 ? piece : piece.substr(0, dash);
    PLEACH_ASSIGN(begin, parse_count(first, what, 0, last));
    int32_t end = begin;
    if (dash != std::string_view::npos) {
      PLEACH_SET(end, parse_count(piece.substr(dash + 1), what, begin, last));
    }
    for (int32_t number = begin; number <= end; ++number) {
      if (is_there[at(number)]) {
        return invalid(fmt::format("{} {} is twice in {}", what, number, pleach::quoted(text)));
      }
      is_there[at(number)] = true;
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::string ranges_text(std::span<const int32_t> numbers) {
  std::vector<std::string> pieces;
  for (std::size_t first = 0, end = 0; first < numbers.size(); first = end) {
    for (end = first + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1; ++end) {
    }
    pieces.push_back(end - first == 1 ? std::to_string(numbers[first])
                                      : fmt::format("{}-{}", numbers[first], numbers[end - 1]));
  }
  return join(pieces, ",");
}

}  // namespace pleach
