// MessageMatcher: which receive takes which message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "pleach/base/id.h"
#include "pleach/runtime/message_lists.h"
#include "pleach/runtime/message_state.h"

namespace pleach {

// A message that a rank has heard of.
struct MessageLetter {
  Rank source;
  int32_t tag = 0;
  uint64_t sequence = 0;  // among those of its source
  int64_t bytes = 0;
  bool is_whole = false;  // else it has only been announced
  int32_t place = 0;      // that it holds, while it is whole
  const std::byte* payload = nullptr;
  MessageState* own = nullptr;  // the send, where the source is the target
  MessageLetter* next = nullptr;
};

// A receive takes the message of its tag, from its source or from any, that was heard of first; a
// message goes to the receive that was called first. Both cost O(1) where the first of the tag
// suits, and otherwise as many steps as there are others of it before. Borrows receives, keeps
// copies of letters.
class MessageMatcher {
 public:
  // The letter for a receive. Empty: there is none, and the receive waits for one.
  std::optional<MessageLetter> post(MessageState& receive);
  // The receive for a letter. Null: there is none, and the letter waits for one.
  MessageState* hear_of(const MessageLetter& letter);
  // As hear_of(), but changes nothing.
  MessageState* find_receive(Rank source, int32_t tag) const;

  // A waiting receive that suits, or null.
  template <typename Suits>
  MessageState* find_posted(const Suits& suits) const {
    return posted_.find_any(suits);
  }
  void clear();

 private:
  KeyedLists<MessageState, &MessageState::next> posted_;
  KeyedLists<MessageLetter, &MessageLetter::next> letters_;
  std::deque<MessageLetter> store_;  // for letters
  LinkedList<MessageLetter, &MessageLetter::next> free_;
};

}  // namespace pleach
