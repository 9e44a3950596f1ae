// Lists of what is there already: they link items and never allocate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pleach/base/check.h"

namespace pleach {

// First in, first out. An item is in one list for each of its links.
template <typename Item, Item* Item::*link>
class LinkedList {
 public:
  bool empty() const { return first_ == nullptr; }
  Item* front() const { return first_; }

  void append(Item& item) {
    item.*link = nullptr;
    (last_ != nullptr ? last_->*link : first_) = &item;
    last_ = &item;
  }

  // Null: it is empty.
  Item* pop() {
    return take([](const Item&) { return true; });
  }

  // The first that suits, or null.
  template <typename Suits>
  Item* find(const Suits& suits) const {
    Item* item = first_;
    while (item != nullptr && !suits(*item)) {
      item = item->*link;
    }
    return item;
  }

  // As find(), and takes it out.
  template <typename Suits>
  Item* take(const Suits& suits) {
    Item* before = nullptr;
    for (Item* item = first_; item != nullptr; before = item, item = item->*link) {
      if (suits(*item)) {
        (before != nullptr ? before->*link : first_) = item->*link;
        last_ = last_ == item ? before : last_;
        return item;
      }
    }
    return nullptr;
  }

  void clear() { first_ = last_ = nullptr; }

 private:
  Item* first_ = nullptr;
  Item* last_ = nullptr;
};

// Items by key, those of one key in the order in which they came. Calls cost O(1) while there are
// few items, or those that are wanted are the first of their key.
template <typename Item, Item* Item::*link>
class KeyedLists {
 public:
  void append(uint64_t key, Item& item) { of(key).append(item); }
  // The first that suits; `suits` says whether it is of the key, too.
  template <typename Suits>
  Item* find(uint64_t key, const Suits& suits) const {
    return lists_[key % kLists].find(suits);
  }
  template <typename Suits>
  Item* take(uint64_t key, const Suits& suits) {
    return of(key).take(suits);
  }
  // The first of all that suits, in no order.
  template <typename Suits>
  Item* find_any(const Suits& suits) const {
    for (const List& list : lists_) {
      if (Item* const item = list.find(suits)) {
        return item;
      }
    }
    return nullptr;
  }
  void clear() { lists_ = {}; }

 private:
  using List = LinkedList<Item, link>;
  static constexpr std::size_t kLists = 64;

  List& of(uint64_t key) { return lists_[key % kLists]; }

  std::array<List, kLists> lists_;
};

}  // namespace pleach
