// Names: the texts that stand for the values of an enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
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

// The value of a text, if the table has it.
template <typename Value, std::size_t count>
std::optional<Value> value_of(const std::array<Name<Value>, count>& names, std::string_view text) {
  for (const Name<Value>& name : names) {
    if (name.text == text) {
      return name.value;
    }
  }
  return std::nullopt;
}

// All texts that the table has.
template <typename Value, std::size_t count>
std::vector<std::string> texts_of(const std::array<Name<Value>, count>& names) {
  std::vector<std::string> texts;
  texts.reserve(count);
  for (const Name<Value>& name : names) {
    texts.emplace_back(name.text);
  }
  return texts;
}

// Errors: kInvalidArgument listing the known texts; `what` names the enumeration.
template <typename Value, std::size_t count>
Result<Value> parse_name(const std::array<Name<Value>, count>& names, std::string_view what,
                         std::string_view text) {
  if (const std::optional<Value> value = value_of(names, text)) {
    return *value;
  }
  return unknown_name(what, text, texts_of(names));
}

}  // namespace pleach
