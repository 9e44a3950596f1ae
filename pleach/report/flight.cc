#include "pleach/report/flight.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "pleach/base/text.h"
#include "pleach/report/json.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

constexpr std::string_view kFormat = "pleach flight 1";
constexpr int64_t kMostRanks = 65'536;
constexpr double kMostSeconds = 1e12;  // of what is a time

// One object of a file, whose members are asked for by type.
class Object {
 public:
  Object(const nlohmann::json& value, std::string_view where) : value_(value), where_(where) {}

  // Errors: it is no object, or has not the key, with a value of that type.
  template <typename Is>
  Result<const nlohmann::json*> get(const char* key, const char* what, const Is& is) const {
    const auto found = value_.find(key);  // of what is no object: the end
    if (found == value_.end() || !is(*found)) {
      return invalid(fmt::format("{}: {} is no {}", where_, pleach::quoted(key), what));
    }
    return &*found;
  }
  Result<int64_t> whole(const char* key, int64_t least, int64_t most) const {
    PLEACH_ASSIGN(value,
                  get(key, "whole number", [](const auto& it) { return it.is_number_integer(); }));
    const bool is_huge = value->is_number_unsigned() && value->template get<uint64_t>() > INT64_MAX;
    const int64_t number = is_huge ? INT64_MAX : value->template get<int64_t>();
    if (is_huge || number < least || number > most) {
      return invalid(
          fmt::format("{}: {} is outside {} to {}", where_, pleach::quoted(key), least, most));
    }
    return number;
  }
  Result<double> seconds(const char* key) const {
    PLEACH_ASSIGN(value, get(key, "time", [](const auto& it) {
                    return it.is_number() && std::abs(it.template get<double>()) < kMostSeconds;
                  }));
    return value->template get<double>();
  }
  Result<std::string> text(const char* key) const {
    PLEACH_ASSIGN(value, get(key, "text", [](const auto& it) { return it.is_string(); }));
    return value->template get<std::string>();
  }
  Result<const nlohmann::json*> list(const char* key) const {
    return get(key, "list", [](const auto& it) { return it.is_array(); });
  }
  Result<const nlohmann::json*> object(const char* key) const {
    return get(key, "object", [](const auto& it) { return it.is_object(); });
  }
  Result<uint64_t> hexadecimal(const char* key) const {
    PLEACH_ASSIGN(word, text(key));
    const char* const end = word.data() + word.size();
    uint64_t number = 0;
    if (word.size() != 16 || std::from_chars(word.data(), end, number, 16).ptr != end) {
      return invalid(
          fmt::format("{}: {} is no number of 16 hexadecimal digits", where_, pleach::quoted(key)));
    }
    return number;
  }

 private:
  const nlohmann::json& value_;
  const std::string_view where_;
};

Result<int32_t> parse_rank(std::string_view text, std::string_view where) {
  return parse_count(text, fmt::format("{}: rank", where), 0, kMostRanks - 1);
}

Result<FlightFile::Operation> read_operation(const Object& object, double offset_s,
                                             std::string_view where) {
  FlightFile::Operation operation;
  PLEACH_SET(operation.channel, object.text("channel"));
  PLEACH_SET(operation.operation, object.whole("operation", 1, INT64_MAX));
  PLEACH_SET(operation.fingerprint, object.hexadecimal("fingerprint"));
  PLEACH_ASSIGN(state, object.text("state"));
  operation.is_over = state == "done";
  PLEACH_ASSIGN(started_s, object.seconds("started_s"));
  operation.started_s = started_s + offset_s;
  PLEACH_ASSIGN(first, object.object("first_segment_after_s"));
  for (const auto& [key, value] : first->items()) {
    if (value.is_null()) {
      PLEACH_ASSIGN(rank, parse_rank(key, where));
      operation.awaited.push_back(rank);
    }
  }
  std::ranges::sort(operation.awaited);
  return operation;
}

// Of a number or null: that, or `otherwise`.
Result<int64_t> number_or(const Object& object, const char* key, int64_t most, int64_t otherwise) {
  PLEACH_ASSIGN(value, object.get(key, "whole number or null", [](const auto& it) {
    return it.is_number_integer() || it.is_null();
  }));
  return value->is_null() ? Result<int64_t>(otherwise) : object.whole(key, 0, most);
}

Result<FlightFile::Message> read_message(const Object& object, double offset_s,
                                         std::string_view where) {
  FlightFile::Message message;
  PLEACH_SET(message.channel, object.text("channel"));
  PLEACH_ASSIGN(kind, object.text("kind"));
  if (kind != "send" && kind != "receive") {
    return invalid(fmt::format("{}: {} is neither send nor receive", where, pleach::quoted(kind)));
  }
  message.is_send = kind == "send";
  PLEACH_ASSIGN(peer, number_or(object, "peer", kMostRanks - 1, -1));
  PLEACH_ASSIGN(tag, object.whole("tag", 0, INT32_MAX));
  message.peer = static_cast<int32_t>(peer);
  message.tag = static_cast<int32_t>(tag);
  PLEACH_SET(message.bytes, object.whole("bytes", 0, INT64_MAX));
  PLEACH_SET(message.sequence, number_or(object, "message", INT64_MAX, 0));
  PLEACH_ASSIGN(state, object.text("state"));
  message.is_over = state == "done";
  PLEACH_ASSIGN(matched,
                object.get("matched", "truth", [](const auto& it) { return it.is_boolean(); }));
  message.is_matched = matched->get<bool>();
  PLEACH_ASSIGN(started_s, object.seconds("started_s"));
  message.started_s = started_s + offset_s;
  return message;
}

Result<FlightFile::Channel> read_channel(const Object& object, std::string_view where) {
  FlightFile::Channel channel;
  PLEACH_SET(channel.name, object.text("name"));
  PLEACH_ASSIGN(ranks, object.list("ranks"));
  for (const nlohmann::json& rank : *ranks) {
    PLEACH_ASSIGN(number, parse_rank(rank.dump(), where));
    channel.ranks.push_back(number);
  }
  return channel;
}

Result<FlightFile> read_object(const Object& top, std::string_view where) {
  FlightFile file;
  PLEACH_ASSIGN(rank_count, top.whole("rank_count", 1, kMostRanks));
  PLEACH_ASSIGN(rank, top.whole("rank", 0, rank_count - 1));
  file.rank = static_cast<int32_t>(rank);
  file.rank_count = static_cast<int32_t>(rank_count);
  PLEACH_SET(file.job, top.text("job"));
  PLEACH_ASSIGN(failure, top.get("failure", "text or null",
                                 [](const auto& it) { return it.is_string() || it.is_null(); }));
  file.failure = failure->is_string() ? failure->get<std::string>() : "";
  PLEACH_ASSIGN(steady_s, top.seconds("steady_s"));
  PLEACH_SET(file.written_s, top.seconds("unix_s"));
  PLEACH_ASSIGN(channels, top.list("channels"));
  for (const nlohmann::json& value : *channels) {
    const Object object(value, where);
    PLEACH_ASSIGN(number, object.text("channel"));
    PLEACH_SET(file.channels[number], read_channel(object, where));
  }
  PLEACH_ASSIGN(operations, top.list("operations"));
  for (const nlohmann::json& value : *operations) {
    PLEACH_ASSIGN(operation,
                  read_operation(Object(value, where), file.written_s - steady_s, where));
    file.operations.push_back(std::move(operation));
  }
  PLEACH_ASSIGN(messages, top.list("messages"));
  for (const nlohmann::json& value : *messages) {
    PLEACH_ASSIGN(message, read_message(Object(value, where), file.written_s - steady_s, where));
    file.messages.push_back(std::move(message));
  }
  return file;
}

}  // namespace

Result<FlightFile> read_flight_file(std::string_view text, std::string_view where) {
  PLEACH_ASSIGN(value, parse_json(text, where));
  const Object top(value, where);
  const Result<std::string> format = top.text("format");
  if (!format || *format != kFormat) {
    return invalid(fmt::format("{}: no flight file of this version ({})", where, kFormat));
  }
  return read_object(top, where);
}

namespace {

Json json_of(const FlightReport& report) {
  Json problems = Json::array(), failures = Json::array(), places = Json::array(),
       messages = Json::array(), lateness = Json::array();
  for (const FlightReport::Problem& problem : report.problems) {
    problems.push_back({{"file", problem.file}, {"why", problem.why}});
  }
  for (const FlightReport::Failure& failure : report.failures) {
    failures.push_back({{"message", failure.message}, {"ranks", failure.ranks}});
  }
  for (const FlightReport::Place& place : report.places) {
    const bool is_in_flight = place.operation > 0;
    places.push_back({{"communicator", place.communicator},
                      {"channel", place.channel},
                      {"rank", place.rank},
                      {"begun", place.begun},
                      {"done", place.done},
                      {"operation", is_in_flight ? Json(place.operation) : Json(nullptr)},
                      {"request", is_in_flight ? Json(place.text) : Json(nullptr)},
                      {"since_s", is_in_flight ? Json(place.since_s) : Json(nullptr)},
                      {"waits_for", place.awaited},
                      {"behind", place.is_behind}});
  }
  for (const FlightReport::Message& message : report.messages) {
    messages.push_back(
        {{"communicator", message.communicator},
         {"rank", message.rank},
         {"kind", message.is_send ? "send" : "receive"},
         {"peer", message.peer < 0 ? Json(nullptr) : Json(message.peer)},
         {"tag", message.tag},
         {"bytes", message.bytes},
         {"since_s", message.since_s},
         {"unmatched", message.unmatched.empty() ? Json(nullptr) : Json(message.unmatched)}});
  }
  for (const FlightReport::Lateness& late : report.lateness) {
    lateness.push_back({{"rank", late.rank},
                        {"operation_count", late.operation_count},
                        {"last_count", late.last_count},
                        {"mean_s", late.mean_s},
                        {"most_s", late.most_s}});
  }
  Json report_json = {
      {"folder", report.folder},
      {"job", report.job},
      {"rank_count", report.rank_count},
      {"missing", report.missing},
      {"problems", problems},
      {"failures", failures},
      {"mismatches", report.mismatches},
      {"places", places},
      {"messages", messages},
      {"lateness", lateness},
      {"slowest", report.lateness.empty() ? Json(nullptr) : Json(report.lateness.front().rank)}};
  for (const FlightReport& group : report.groups) {
    report_json["groups"].push_back(json_of(group));
  }
  return report_json;
}

}  // namespace

std::string to_json(const FlightReport& report) {
  // ASCII alone: others wrote what the files hold, and a terminal may obey it.
  return json_of(report).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace pleach
