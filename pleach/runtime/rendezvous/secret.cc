#include "pleach/runtime/rendezvous/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <new>

namespace pleach {
namespace {

// Whoever hears one proof may try secrets at leisure, so words do not do.
constexpr std::size_t kLeastLetters = 16;

}  // namespace

Result<JobSecret> JobSecret::parse(std::string_view text, std::string_view what) {
  if (text.size() < kLeastLetters) {
    return invalid(
        fmt::format("{} has {} letters; a secret has at least {}, as of `openssl rand "
                    "-hex 32`",
                    what, text.size(), kLeastLetters));
  }
  return JobSecret(std::string(text));
}

JobSecret JobSecret::make() {
  std::string letters;
  for (const std::byte byte : random_digest()) {
    letters += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return JobSecret(std::move(letters));
}

JobSecret JobSecret::encrypting() const {
  PLEACH_CHECK(!is_none(), "what everybody knows encrypts nothing");
  JobSecret other = *this;
  other.encrypts_ = true;
  return other;
}

Digest JobSecret::sign(std::span<const std::byte> statement) const {
  Digest digest = {};
  const unsigned char* const made =
      HMAC(EVP_sha256(), text_.data(), static_cast<int>(text_.size()),
           reinterpret_cast<const unsigned char*>(statement.data()), statement.size(),
           reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  if (made == nullptr) {  // OpenSSL has SHA-256: there is no memory for it
    throw std::bad_alloc();
  }
  return digest;
}

bool is_same(const Digest& left, const Digest& right) {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

Digest random_digest() {
  Digest digest;
  PLEACH_CHECK(getentropy(digest.data(), digest.size()) == 0, "the kernel has random bytes");
  return digest;
}

}  // namespace pleach
