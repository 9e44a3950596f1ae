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

// Finds values in well-formed text, each by the place of its first byte.
class TextWalk {
 public:
  explicit TextWalk(std::string_view text) : text_(text) {}

  std::size_t place_of(const Json::json_pointer& pointer) const {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (pointer.empty()) {
      return after_space(text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
    }
    return member(place_of(pointer.parent_pointer()), pointer.back());
  }

 private:
  // The one called `key` of the array or object at `place`; `place` where there is none.
  std::size_t member(std::size_t place, const std::string& key) const {
    const bool is_object = text_[place] == '{';
    if (!is_object && text_[place] != '[') {
      return place;
    }
    std::size_t next = after_space(place + 1);
    for (std::size_t index = 0; text_[next] != '}' && text_[next] != ']'; ++index) {
      std::string name = std::to_string(index);
      if (is_object) {
        const std::size_t end = after_token(next);
        name = Json::parse(text_.substr(next, end - next)).get<std::string>();
        next = after_space(after_space(end) + 1);  // the colon
      }
      if (name == key) {
        return next;
      }
      next = after_space(after_value(next));
      if (text_[next] == ',') {
        next = after_space(next + 1);
      }
    }
    return place;
  }

  std::size_t after_value(std::size_t place) const {
    int depth = 0;
    do {
      place = after_space(place);
      depth += text_[place] == '{' || text_[place] == '[' ? 1 : 0;
      depth -= text_[place] == '}' || text_[place] == ']' ? 1 : 0;
      place = after_token(place);
    } while (depth > 0);
    return place;
  }

  std::size_t after_token(std::size_t place) const {
    if (kMarks.find(text_[place]) != std::string_view::npos) {
      return place + 1;
    }
    if (text_[place] != '"') {
      return std::min(text_.size(), text_.find_first_of(" \t\r\n{}[],:", place));
    }
    for (++place; text_[place] != '"'; ++place) {
      place += text_[place] == '\\' ? 1 : 0;
    }
    return place + 1;
  }

  std::size_t after_space(std::size_t place) const {
    return std::min(text_.size(), text_.find_first_not_of(" \t\r\n", place));
  }

  static constexpr std::string_view kMarks = "{}[],:";
  std::string_view text_;
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

std::string json_place(std::string_view text, std::string_view where,
                       const nlohmann::json::json_pointer& pointer) {
  const std::string_view before = text.substr(0, TextWalk(text).place_of(pointer));
  const std::size_t line_start = before.rfind('\n') + 1;  // 0 on the first line
  return fmt::format("{}:{}:{}", where, 1 + std::ranges::count(before, '\n'),
                     before.size() - line_start + 1);
}

std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) {
    return value.is_array() ? "an array" : "an object";
  }
  return pleach::quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace pleach
