// Names: the texts that stand for the values of an enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/result.h"
#include "pleach/base/text.h"

namespace pleach {

template <typename Value>
struct Name {
  Value value;
  std::string_view text;
};

// The text of a value that the table has.
template <typename Value, std::size_t count>
std::string_view name_of(const std::array<Name<Value>, count>& names, Value value) {
  for (const Name<Value>& name : names) {
    if (name.value == value) {
      return name.text;
    }
  }
  PLEACH_CHECK(false, "value outside its enumeration");
  return {};
}

// Errors: kInvalidArgument listing the known texts; `what` names the enumeration.
template <typename Value, std::size_t count>
Result<Value> parse_name(const std::array<Name<Value>, count>& names, std::string_view what,
                         std::string_view text) {
  std::vector<std::string> known;
  for (const Name<Value>& name : names) {
    if (name.text == text) {
      return name.value;
    }
    known.emplace_back(name.text);
  }
  return unknown_name(what, text, known);
}

}  // namespace pleach
