#include "pleach/workload/chakra_groups.h"

#include <fmt/format.h>

#include <optional>

#include "pleach/base/text.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

using nlohmann::json;

std::optional<std::vector<int32_t>> ranks_of(const json& list) {
  if (!list.is_array()) {
    return std::nullopt;
  }
  std::vector<int32_t> ranks;
  for (const json& rank : list) {
    if (!rank.is_number_unsigned() || rank.get<uint64_t>() > INT32_MAX) {
      return std::nullopt;
    }
    ranks.push_back(rank.get<int32_t>());
  }
  return ranks;
}

}  // namespace

Result<ChakraGroups> parse_chakra_groups(std::string_view text, const std::string& path) {
  PLEACH_ASSIGN(root, parse_json(text, path));
  if (!root.is_object()) {
    return invalid(fmt::format("{}: not a JSON object of groups, as {{\"0\": [0, 1]}}", path));
  }
  ChakraGroups groups;
  for (const auto& [name, list] : root.items()) {
    std::optional<std::vector<int32_t>> ranks = ranks_of(list);
    if (!ranks.has_value()) {
      return invalid(fmt::format("{}: group {} is no list of ranks", path, pleach::quoted(name)));
    }
    groups[name] = std::move(*ranks);
  }
  return groups;
}

void add_metadata_groups(std::string_view text, ChakraGroups& groups) {
  json root = json::parse(text, nullptr, false);
  // Some writers put the text of the list into a list.
  if (root.is_array() && root.size() == 1 && root[0].is_string()) {
    root = json::parse(root[0].get<std::string>(), nullptr, false);
  }
  if (!root.is_array()) {
    return;
  }
  for (const json& entry : root) {
    if (!entry.is_object() || !entry.contains("pg_name") || !entry["pg_name"].is_string() ||
        !entry.contains("ranks")) {
      continue;
    }
    if (std::optional<std::vector<int32_t>> ranks = ranks_of(entry["ranks"])) {
      groups[entry["pg_name"].get<std::string>()] = std::move(*ranks);
    }
  }
}

}  // namespace pleach
