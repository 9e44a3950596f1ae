// StoreContent: the values and counters of a store.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace pleach {

// Not thread safe.
class StoreContent {
 public:
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  // Null: the key has no value.
  const std::string* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  // Adds one to a counter that starts at 0; returns the new value.
  int64_t increment(const std::string& key) { return ++counters_[key]; }
  // Forgets every key and counter that starts with `prefix`.
  void erase(const std::string& prefix) {
    erase_from(values_, prefix);
    erase_from(counters_, prefix);
  }

 private:
  template <typename Map>
  static void erase_from(Map& map, const std::string& prefix) {
    auto entry = map.lower_bound(prefix);
    while (entry != map.end() && entry->first.starts_with(prefix)) {
      entry = map.erase(entry);
    }
  }

  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> counters_;
};

}  // namespace pleach
