#include "pleach/workload/chakra_groups.h"

#include <fmt/format.h>

#include <optional>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

using nlohmann::json;

std::optional<int32_t> rank_of(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX) {
    return std::nullopt;
  }
  return value.get<int32_t>();
}

std::optional<std::vector<int32_t>> ranks_of(const json& list) {
  if (!list.is_array()) {
    return std::nullopt;
  }
  std::vector<int32_t> ranks;
  for (const json& value : list) {
    const std::optional<int32_t> rank = rank_of(value);
    if (!rank.has_value()) {
      return std::nullopt;
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

}  // namespace

Result<ChakraGroups> read_chakra_groups(const std::string& path, int32_t rank_count) {
  PLEACH_ASSIGN(text, read_text_file(path));
  PLEACH_ASSIGN(root, parse_json(text, path));
  using Pointer = json::json_pointer;
  const auto error = [&](const Pointer& pointer, const std::string& what) {
    return invalid(json_place(text, path, pointer), what);
  };
  if (!root.is_object()) {
    return error(Pointer(), "not a JSON object of groups, as {\"0\": [0, 1]}");
  }
  ChakraGroups groups;
  for (const auto& [name, list] : root.items()) {
    const Pointer place = Pointer() / name;
    const std::string group = "group " + pleach::quoted(name);
    if (!list.is_array()) {
      return error(place, fmt::format("{}: {} is no list of ranks", group, shown(list)));
    }
    std::vector<bool> is_in(at(rank_count));
    for (std::size_t index = 0; index < list.size(); ++index) {
      const std::optional<int32_t> rank = rank_of(list[index]);
      if (!rank.has_value() || *rank >= rank_count) {
        return error(place / index, fmt::format("{}: {} is no rank from 0 to {}", group,
                                                shown(list[index]), rank_count - 1));
      }
      if (is_in[at(*rank)]) {
        return error(place / index, fmt::format("{}: rank {} is there twice", group, *rank));
      }
      is_in[at(*rank)] = true;
      groups[name].push_back(*rank);
    }
    groups.try_emplace(name);  // no ranks: all
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
