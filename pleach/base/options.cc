#include "pleach/base/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

// The number a value stands for; 0 for choices and text.
Result<int64_t> parse_value(const OptionDescriptor& descriptor, const std::string& text) {
  switch (descriptor.kind) {
    case Kind::kInteger:
      return parse_integer(text, "value", descriptor.least, descriptor.most);
    case Kind::kSize:
      return parse_size_bytes(text);
    case Kind::kBandwidth:
      return parse_bandwidth_bytes_per_s(text);
    case Kind::kTime:
      return parse_time_ps(text);
    case Kind::kChoice:
      if (std::ranges::find(descriptor.allowed, text) == descriptor.allowed.end()) {
        return unknown_name("value", text, descriptor.allowed);
      }
      return int64_t{0};
    case Kind::kText:
      return int64_t{0};
  }
  return int64_t{0};
}

bool is_number(Kind kind) {
  return kind != Kind::kChoice && kind != Kind::kText;
}

}  // namespace

Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  const std::vector<std::string_view> pieces = split(text, ',');
  const std::size_t colon = pieces[0].find(':');
  spec.name = pieces[0].substr(0, colon);
  if (spec.name.empty()) {
    return invalid(
        fmt::format("{} has no name: expected NAME[:ARGUMENT][,key=value...]", quoted(text)));
  }
  if (colon != std::string_view::npos) {
    spec.argument = pieces[0].substr(colon + 1);
  }
  for (const std::string_view piece : std::span(pieces).subspan(1)) {
    const std::size_t equals = piece.find('=');
    const std::string_view key = piece.substr(0, equals);
    if (key.empty()) {
      return invalid(fmt::format("{}: option {} has no key", quoted(text), quoted(piece)));
    }
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view("true") : piece.substr(equals + 1);
    spec.options.emplace_back(key, value);
  }
  return spec;
}

namespace {

// The next of the words between commas, or the path of a file that has some.
std::string_view next_word(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(','));
  const std::string_view path = text.substr(0, path_length(text));
  return path.size() > word.size() && path.find_first_of("/.") != path.npos ? path : word;
}

}  // namespace

Result<std::vector<std::string>> split_specs(std::string_view text) {
  std::vector<std::string> specs;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::string_view whole = next_word(text.substr(begin));
    begin += whole.size() + 1;
    const std::string_view word = trim(whole);
    if (word.empty()) {
      return invalid(quoted(text) + " has an empty name");
    }
    // What has a folder before the sign is a file.
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || word.substr(0, equals).find('/') != word.npos) {
      specs.emplace_back(word);
    } else if (specs.empty()) {
      return invalid(quoted(text) + " starts with an option");
    } else {
      specs.back() += "," + std::string(word);
    }
  }
  return specs;
}

Result<Options> Options::create(std::span<const OptionDescriptor> descriptors,
                                std::span<const std::pair<std::string, std::string>> given,
                                std::string_view where) {
  Options options;
  std::vector<std::string> known;
  for (const OptionDescriptor& descriptor : descriptors) {
    OptionDescriptor any = descriptor;
    any.least = std::min<int64_t>(descriptor.least, 0);
    const Result<int64_t> number = parse_value(any, descriptor.default_value);
    PLEACH_CHECK(number.has_value(), "the default of an option is no value of it");
    const bool fresh =
        options.values_.emplace(descriptor.name, Value{descriptor.default_value, *number, true})
            .second;
    PLEACH_CHECK(fresh, "an option is described twice");
    known.push_back(descriptor.name);
  }
  std::map<std::string, bool> seen;
  for (const auto& [key, text] : given) {
    const auto descriptor = std::ranges::find(descriptors, key, &OptionDescriptor::name);
    if (descriptor == descriptors.end()) {
      return invalid(fmt::format("{}: {}", where, unknown_name("option", key, known).message));
    }
    if (!seen.emplace(key, true).second) {
      return invalid(fmt::format("{}: option {} is given twice", where, quoted(key)));
    }
    const Result<int64_t> number = parse_value(*descriptor, text);
    if (!number) {
      return invalid(fmt::format("{}: option {}: {}", where, quoted(key), number.error().message));
    }
    Value& value = options.values_.at(key);
    value.is_default = is_number(descriptor->kind) ? *number == value.number : text == value.text;
    value.text = text;
    value.number = *number;
  }
  return options;
}

const std::string& Options::text(const std::string& name) const {
  const auto found = values_.find(name);
  PLEACH_CHECK(found != values_.end(), "no such option is described");
  return found->second.text;
}

int64_t Options::integer(const std::string& name) const {
  return number(name);
}

int64_t Options::number(const std::string& name) const {
  const auto found = values_.find(name);
  PLEACH_CHECK(found != values_.end(), "no such option is described");
  return found->second.number;
}

std::string Options::canonical() const {
  std::vector<std::string> pieces;
  for (const auto& [name, value] : values_) {
    if (!value.is_default) {
      pieces.push_back(fmt::format("{}={}", name, value.text));
    }
  }
  return join(pieces, ",");
}

}  // namespace pleach
