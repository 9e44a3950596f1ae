// JobSecret: what the ranks of a job know and nobody else.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "pleach/base/result.h"

namespace pleach {

using Digest = std::array<std::byte, 32>;

class JobSecret {
 public:
  // None: whoever reaches the job may take part in it.
  JobSecret() = default;
  // Errors: kInvalidArgument naming `what`, not the text: it is too short to be a secret.
  static Result<JobSecret> parse(std::string_view text, std::string_view what);
  // A new one, of 256 random bits.
  static JobSecret make();

  // The same, of a job whose ranks encrypt what they say to each other over TCP.
  JobSecret encrypting() const;

  bool is_none() const { return text_.empty(); }
  bool encrypts() const { return encrypts_; }
  // As parse() reads it.
  const std::string& text() const { return text_; }
  // What only who holds the secret can say of a statement: its HMAC-SHA256.
  //   source  RFC 2104; FIPS 180-4
  Digest sign(std::span<const std::byte> statement) const;

 private:
  explicit JobSecret(std::string text) : text_(std::move(text)) {}

  std::string text_;
  bool encrypts_ = false;
};

// In a time that does not tell where they differ.
bool is_same(const Digest& left, const Digest& right);
// A number that nobody can have foreseen.
Digest random_digest();

}  // namespace pleach
