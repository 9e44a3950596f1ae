// Both half types, for typed tests.
#pragma once

#include <gtest/gtest.h>

#include <type_traits>

#include "pleach/base/element.h"

namespace pleach::support {

using Halves = testing::Types<Float16, BFloat16>;

template <typename T>
constexpr ElementType kType =
    std::is_same_v<T, Float16> ? ElementType::kFloat16 : ElementType::kBFloat16;

template <typename T>
float rounded(float value) {
  return widen(narrow<T>(value));
}

}  // namespace pleach::support
