// Fingerprint: FNV-1a over integers and text. Stable across platforms; not cryptographic.
#pragma once

#include <cstdint>
#include <string_view>

namespace pleach {

class Fingerprint {
 public:
  void add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<uint8_t>(value >> shift));
    }
  }
  void add(int64_t value) { add(static_cast<uint64_t>(value)); }
  void add(int32_t value) { add(static_cast<uint64_t>(static_cast<int64_t>(value))); }
  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    for (const char letter : text) {
      add_byte(static_cast<uint8_t>(letter));
    }
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace pleach
