// StoreContent: the values and counters of a store, and whose they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "pleach/base/id.h"
#include "pleach/runtime/rendezvous/store_protocol.h"

namespace pleach {

// Not thread safe.
class StoreContent {
 public:
  // What the keys, values and counters that a rank has set may take: far more than any job needs,
  // and little enough that a rank gone wild does not take the host along.
  static constexpr int64_t kMostBytes = int64_t{256} << 20;

  //   setter   no rank: nobody counts what it takes
  //   returns  false: the rank has set too much already, and nothing has happened
  bool set(const std::string& key, std::string value, Rank setter = {}) {
    const auto [entry, is_new] = values_.try_emplace(key);
    const int64_t before = is_new ? 0 : cost(key, entry->second.value);
    if (!is_new) {
      bytes_[entry->second.setter] -= before;
    }
    if (!charge(setter, cost(key, value))) {
      if (is_new) {
        values_.erase(entry);
      } else {
        bytes_[entry->second.setter] += before;
      }
      return false;
    }
    entry->second = {std::move(value), setter};
    return true;
  }
  // Null: the key has no value.
  const std::string* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second.value;
  }
  // Adds one to a counter that starts at 0; returns the new value. Empty: as set().
  std::optional<int64_t> increment(const std::string& key, Rank setter = {}) {
    const auto found = counters_.find(key);
    if (found != counters_.end()) {
      return ++found->second.value;
    }
    if (!charge(setter, cost(key, ""))) {
      return std::nullopt;
    }
    counters_[key] = {1, setter};
    return 1;
  }
  // Forgets every key and counter that starts with `prefix`.
  void erase(const std::string& prefix) {
    erase_from(values_, prefix, [](const auto& entry) { return entry.second.value.size(); });
    erase_from(counters_, prefix, [](const auto&) { return std::size_t{0}; });
  }

 private:
  template <typename Value>
  struct Entry {
    Value value = {};
    Rank setter = {};
  };
  static int64_t cost(const std::string& key, std::string_view value) {
    return static_cast<int64_t>(key.size() + value.size() + kStoreEntryBytes);
  }
  bool charge(Rank setter, int64_t bytes) {
    int64_t& sum = bytes_[setter];
    if (setter.value >= 0 && sum + bytes > kMostBytes) {
      return false;
    }
    sum += bytes;
    return true;
  }
  template <typename Map, typename Size>
  void erase_from(Map& map, const std::string& prefix, const Size& size) {
    auto entry = map.lower_bound(prefix);
    while (entry != map.end() && entry->first.starts_with(prefix)) {
      bytes_[entry->second.setter] -= cost(entry->first, "") + static_cast<int64_t>(size(*entry));
      entry = map.erase(entry);
    }
  }

  std::map<std::string, Entry<std::string>> values_;
  std::map<std::string, Entry<int64_t>> counters_;
  std::map<Rank, int64_t> bytes_;  // by who has set them
};

}  // namespace pleach
