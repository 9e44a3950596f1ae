#include "pleach/base/registry.h"

#include <fmt/format.h>

namespace pleach {

std::string describe_options(std::span<const OptionDescriptor> options) {
  std::vector<std::string> words;
  for (const OptionDescriptor& option : options) {
    std::string values = option.allowed.empty() ? "VALUE" : join(option.allowed, "|");
    if (option.allowed.empty() && option.kind == OptionDescriptor::Kind::kInteger) {
      values = "N";
    }
    const std::string standard =
        option.default_value.empty() ? "" : fmt::format(" (default {})", option.default_value);
    words.push_back(fmt::format("{}={}{}", option.name, values, standard));
  }
  return join(words, ", ");
}

std::string option_details(std::span<const OptionDescriptor> options) {
  return options.empty() ? "" : "options: " + describe_options(options);
}

Result<Options> options_of(const Spec& spec, std::string_view what,
                           std::span<const OptionDescriptor> descriptors) {
  if (!spec.argument.empty()) {
    return invalid(fmt::format("{} takes options after a comma, not {}", what,
                               pleach::quoted(":" + spec.argument)));
  }
  return Options::create(descriptors, spec.options, what);
}

}  // namespace pleach
