#include "pleach/workload/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 8;

// What the standard reader lets pass: repeated keys and absurd nesting.
class StructureGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kDeepest) {
      is_deep_ = true;
      return false;
    }
    const auto level = at(depth);
    if (event == Json::parse_event_t::object_start) {
      seen_[level + 1].clear();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!seen_[level].insert(key).second && repeated_.empty()) {
        repeated_ = fmt::format("key {} is there twice", pleach::quoted(key));
      }
    }
    return true;
  }

  std::string fault() const {
    return is_deep_ ? fmt::format("it is nested deeper than {} levels", kDeepest) : repeated_;
  }

 private:
  std::array<std::set<std::string>, kDeepest + 2> seen_;
  std::string repeated_;
  bool is_deep_ = false;
};

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view where) {
  constexpr std::size_t kMessageLimit = 200;
  StructureGuard guard;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& value) {
    return guard(depth, event, value);
  };
  try {
    Json json = Json::parse(text, callback);
    if (const std::string fault = guard.fault(); !fault.empty()) {
      return invalid(std::string(where), fault);
    }
    return json;
  } catch (const Json::exception& exception) {
    std::string_view what = exception.what();
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    return invalid(std::string(where), "no JSON: " + one_line(what.substr(0, kMessageLimit)));
  }
}

}  // namespace pleach
