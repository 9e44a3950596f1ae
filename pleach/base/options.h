// NAME[,key=value...]: what a topology, an algorithm or a policy is called with.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// One option that a registry entry takes. Values are text; `allowed` empty means an integer in
// [least, most] or, where `kind` says so, a size, bandwidth, time or free text.
struct OptionDescriptor {
  enum class Kind : uint8_t { kInteger, kChoice, kSize, kBandwidth, kTime, kText };
  std::string name;
  Kind kind = Kind::kInteger;
  std::string default_value;
  std::string summary;
  std::vector<std::string> allowed = {};  // kChoice
  int64_t least = 0;                      // kInteger
  int64_t most = INT32_MAX;               // kInteger
};

// "torus:4x4,bandwidth=16GB/s" → name "torus", argument "4x4", one pair.
struct Spec {
  std::string name;
  std::string argument;                                      // after the colon; may be empty
  std::vector<std::pair<std::string, std::string>> options;  // a bare word has the value "true"
};
Result<Spec> parse_spec(std::string_view text);
// "dear,bucket=25MiB,ddp" → "dear,bucket=25MiB" and "ddp": a word with = belongs to the spec before
// it, unless there is a / before the sign, as in the path of a file. The path of a file that is
// there, with a / or a dot, may have commas. Errors: kInvalidArgument: an empty name, or an option
// before any spec.
Result<std::vector<std::string>> split_specs(std::string_view text);

// Validated options: every descriptor has a value.
class Options {
 public:
  // Errors: kInvalidArgument for an unknown key (known ones listed), a repeated key or a bad
  // value; the message starts with `where`.
  static Result<Options> create(std::span<const OptionDescriptor> descriptors,
                                std::span<const std::pair<std::string, std::string>> given,
                                std::string_view where);

  const std::string& text(const std::string& name) const;  // any kind, as written
  int64_t integer(const std::string& name) const;          // kInteger
  int64_t number(const std::string& name) const;  // kSize, kBandwidth, kTime: bytes, B/s, ps
  // "key=value,..." of the options that differ from their defaults, in name order.
  std::string canonical() const;

 private:
  struct Value {
    std::string text;
    int64_t number = 0;
    bool is_default = true;
  };
  std::map<std::string, Value> values_;
};

}  // namespace pleach
