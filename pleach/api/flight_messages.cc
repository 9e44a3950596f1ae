#include "pleach/api/flight_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "pleach/runtime/flight_recorder.h"

namespace pleach {
namespace {

constexpr std::size_t kMostMessages = 100;

using Files = std::map<int32_t, FlightFile>;

// Whether a rank's message in flight may be the other side of one that waits.
bool suits(const FlightFile::Message& other, const FlightFile::Message& message, int32_t rank) {
  return !other.is_over && !other.is_matched && other.channel == message.channel &&
         other.is_send != message.is_send && other.tag == message.tag &&
         (other.peer == rank || other.peer < 0);
}

bool has_counterpart(const FlightFile& peer, const FlightFile::Message& message, int32_t rank) {
  return std::ranges::any_of(peer.messages,
                             [&](const auto& other) { return suits(other, message, rank); });
}

// The messages of a source that a rank has taken, on a channel.
std::set<int64_t> taken_from(const FlightFile& file, const std::string& channel, int32_t source) {
  std::set<int64_t> taken;
  for (const FlightFile::Message& message : file.messages) {
    if (!message.is_send && message.channel == channel && message.peer == source) {
      taken.insert(message.sequence);
    }
  }
  return taken;
}

// What others do in place of what a message waits for: ", but tag 7".
std::string instead(const FlightFile& peer, const FlightFile::Message& message, int32_t rank) {
  std::set<int32_t> tags;
  for (const FlightFile::Message& other : peer.messages) {
    FlightFile::Message same = message;
    same.tag = other.tag;
    if (suits(other, same, rank)) {
      tags.insert(other.tag);
    }
  }
  return tags.empty()
             ? ""
             : fmt::format(", but tag {}{}", *tags.begin(), tags.size() > 1 ? " and others" : "");
}

// What the other side of a message in flight lacks.
std::string lack_of(const Files& files, const FlightFile::Message& message, int32_t rank) {
  if (message.peer < 0) {
    const bool has_one = std::ranges::any_of(
        files, [&](const auto& entry) { return has_counterpart(entry.second, message, rank); });
    return has_one ? "" : fmt::format("no rank sends it tag {}", message.tag);
  }
  const auto peer = files.find(message.peer);
  if (peer == files.end()) {
    return fmt::format("rank {} has left no file", message.peer);
  }
  if (has_counterpart(peer->second, message, rank)) {
    return "";
  }
  return fmt::format("rank {} {} tag {}{}", message.peer,
                     message.is_send ? "receives nothing from it with" : "sends it nothing with",
                     message.tag, instead(peer->second, message, rank));
}

// Whether a message that was sent has never come to a receive, as far as it can be told.
bool is_left_over(const Files& files, const FlightFile::Message& message, int32_t rank) {
  const auto peer = files.find(message.peer);
  return message.is_send && message.is_over && message.sequence > 0 && peer != files.end() &&
         peer->second.messages.size() < FlightRecorder::kEntries &&
         !taken_from(peer->second, message.channel, rank).contains(message.sequence) &&
         !has_counterpart(peer->second, message, rank);
}

}  // namespace

std::vector<FlightReport::Message> match_messages(const Files& files) {
  std::vector<FlightReport::Message> all;
  for (const auto& [rank, file] : files) {
    for (const FlightFile::Message& message : file.messages) {
      const bool is_left = is_left_over(files, message, rank);
      if (message.is_over && !is_left) {
        continue;
      }
      const auto channel = file.channels.find(message.channel);
      all.push_back(
          {.communicator = channel == file.channels.end() ? message.channel : channel->second.name,
           .rank = rank,
           .is_send = message.is_send,
           .peer = message.peer,
           .tag = message.tag,
           .bytes = message.bytes,
           .since_s = file.written_s - message.started_s,
           .unmatched = is_left ? fmt::format("rank {} has not received it", message.peer)
                        : message.is_matched ? ""
                                             : lack_of(files, message, rank)});
    }
  }
  std::ranges::stable_sort(all, std::less<>(), [](const FlightReport::Message& message) {
    return std::tuple(message.unmatched.empty(), -message.since_s);
  });
  all.resize(std::min(all.size(), kMostMessages));
  return all;
}

}  // namespace pleach
