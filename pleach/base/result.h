// Result<T>: a value or an Error. Same member names as C++23 std::expected, so
// that the type can become an alias the day the toolchain allows it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "pleach/base/check.h"

namespace pleach {

enum class ErrorCode { kInvalidArgument, kInfeasible, kIo, kTimeout, kPeerLost, kUnsupported };

struct [[nodiscard]] Error {
  ErrorCode code;
  std::string message;  // One sentence, names the offending value, no trailing newline.
};

// Bad input: the message, after the place that the value came from ("cluster.toml:14: ...") where
// there is one.
inline Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}
inline Error invalid(const std::string& place, const std::string& message) {
  return invalid(place.empty() ? message : place + ": " + message);
}
// An error met on the way to something: the same, after the name of that.
inline Error prefixed(const std::string& place, const Error& error) {
  return {error.code, place + ": " + error.message};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    PLEACH_CHECK(!has_value(), "error() on a value");
    return std::get<Error>(state_);
  }
  const T& value() const& {
    PLEACH_CHECK(has_value(), "value() on an error");
    return std::get<T>(state_);
  }
  T&& value() && {
    PLEACH_CHECK(has_value(), "value() on an error");
    return std::get<T>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return mutable_value(); }
  T* operator->() { return &mutable_value(); }

 private:
  T& mutable_value() {
    PLEACH_CHECK(has_value(), "value() on an error");
    return std::get<T>(state_);
  }

  std::variant<T, Error> state_;
};

// For functions that return nothing but may fail: `return ok();`. One word, so that success costs
// next to nothing on the way of every segment.
template <>
class [[nodiscard]] Result<std::monostate> {
 public:
  Result(std::monostate /*value*/) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)                  // NOLINT(google-explicit-constructor)
      : error_(std::make_unique<Error>(std::move(error))) {}
  Result(const Result& other)
      : error_(other.error_ == nullptr ? nullptr : std::make_unique<Error>(*other.error_)) {}
  Result(Result&& other) noexcept = default;
  Result& operator=(const Result& other) { return *this = Result(other); }
  Result& operator=(Result&& other) noexcept = default;
  ~Result() = default;

  bool has_value() const { return error_ == nullptr; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    PLEACH_CHECK(!has_value(), "error() on a value");
    return *error_;
  }

 private:
  std::unique_ptr<Error> error_;
};
using Status = Result<std::monostate>;
inline Status ok() {
  return std::monostate{};
}

}  // namespace pleach

// Returns the error of `expression` from the enclosing function, if it has one.
#define PLEACH_TRY(expression)                               \
  do {                                                       \
    if (auto pleach_result = (expression); !pleach_result) { \
      return pleach_result.error();                          \
    }                                                        \
  } while (false)

// Sets `target` to the value of `expression`, or returns its error.
#define PLEACH_SET(target, expression)    \
  do {                                    \
    auto pleach_result = (expression);    \
    if (!pleach_result) {                 \
      return pleach_result.error();       \
    }                                     \
    (target) = std::move(*pleach_result); \
  } while (false)

// Declares `name` as the value of `expression`, or returns its error.
#define PLEACH_ASSIGN(name, expression) \
  auto name##_result = (expression);    \
  if (!name##_result) {                 \
    return name##_result.error();       \
  }                                     \
  auto& name = *name##_result  // NOLINT(bugprone-macro-parentheses): a declared name
