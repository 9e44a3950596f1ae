#include "pleach/runtime/message_matcher.h"

namespace pleach {
namespace {

bool takes(const MessageState& receive, Rank source, int32_t tag) {
  const MessageRequest& request = receive.request;
  return request.tag == tag && (request.peer.value < 0 || request.peer == source);
}

uint64_t key(int32_t tag) {
  return static_cast<uint64_t>(tag);
}

}  // namespace

std::optional<MessageLetter> MessageMatcher::post(MessageState& receive) {
  const int32_t tag = receive.request.tag;
  MessageLetter* const letter = letters_.take(key(tag), [&](const MessageLetter& waiting) {
    return takes(receive, waiting.source, waiting.tag);
  });
  if (letter == nullptr) {
    posted_.append(key(tag), receive);
    return std::nullopt;
  }
  free_.append(*letter);
  return *letter;
}

MessageState* MessageMatcher::hear_of(const MessageLetter& letter) {
  MessageState* const receive = posted_.take(key(letter.tag), [&](const MessageState& waiting) {
    return takes(waiting, letter.source, letter.tag);
  });
  if (receive == nullptr) {
    MessageLetter* const kept = free_.empty() ? &store_.emplace_back() : free_.pop();
    *kept = letter;
    letters_.append(key(letter.tag), *kept);
  }
  return receive;
}

MessageState* MessageMatcher::find_receive(Rank source, int32_t tag) const {
  return posted_.find(key(tag),
                      [&](const MessageState& waiting) { return takes(waiting, source, tag); });
}

void MessageMatcher::clear() {
  posted_.clear();
  letters_.clear();
  free_.clear();
  store_.clear();
}

}  // namespace pleach
