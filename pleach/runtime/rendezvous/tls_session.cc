#include "pleach/runtime/rendezvous/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

// What one record carries.
constexpr std::size_t kRecordBytes = std::size_t{16} * 1024;
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteNumber = {0x13, 0x01};
constexpr std::array<unsigned char, 6> kIdentity = {'p', 'l', 'e', 'a', 'c', 'h'};

template <auto free_function>
struct Free {
  template <typename Object>
  void operator()(Object* object) const {
    free_function(object);
  }
};
template <typename Object, auto free_function>
using Owned = std::unique_ptr<Object, Free<free_function>>;

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

// OpenSSL's own socket would let SIGPIPE come.
int write_socket(BIO* bio, const char* bytes, int length) {
  const ssize_t count = send(socket_of(bio), bytes, at(length), MSG_NOSIGNAL);
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(count);
}

int read_socket(BIO* bio, char* bytes, int length) {
  const ssize_t count = recv(socket_of(bio), bytes, at(length), 0);
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_retry_read(bio);
  }
  return static_cast<int>(count);
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;  // nothing waits here
}

// A session that is resumed by the key, as TLS 1.3 treats keys that were shared before.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* const key = static_cast<const Digest*>(SSL_get_app_data(ssl));
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kSuiteNumber.data());
  PLEACH_CHECK(
      session != nullptr && suite != nullptr &&
          SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->data()),
                                      key->size()) == 1 &&
          SSL_SESSION_set_cipher(session, suite) == 1 &&
          SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1,
      "OpenSSL has TLS 1.3");
  return session;
}

int offer_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
              std::size_t* length, SSL_SESSION** session) {
  *identity = kIdentity.data();
  *length = kIdentity.size();
  *session = session_of(ssl);
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  const bool is_ours = std::ranges::equal(std::span(identity, length), kIdentity);
  *session = is_ours ? session_of(ssl) : nullptr;
  return 1;
}

// No certificate is good.
int refuse_certificate(int /*verified*/, X509_STORE_CTX* /*store*/) {
  return 0;
}

}  // namespace

struct TlsSession::State {
  mutable std::mutex mutex = {};
  Digest key = {};
  Owned<BIO_METHOD, BIO_meth_free> method;
  Owned<SSL_CTX, SSL_CTX_free> context;
  Owned<SSL, SSL_free> ssl;
  std::array<std::byte, kRecordBytes> record = {};  // what was taken and has not left
  std::size_t record_bytes = 0;
  int64_t records_per_key = 0;
  int64_t records = 0;  // by this key
  bool waits_to_read = false;

  bool shake();
  bool flush();
  bool succeed(int outcome);
};

TlsSession::TlsSession(int socket, const Digest& key, Side side, int64_t records_per_key)
    : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->records_per_key = records_per_key;
  BIO_METHOD* const method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
  state_->method.reset(method);
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  state_->context.reset(context);
  PLEACH_CHECK(method != nullptr && context != nullptr &&
                   BIO_meth_set_write(method, write_socket) == 1 &&
                   BIO_meth_set_read(method, read_socket) == 1 &&
                   BIO_meth_set_ctrl(method, control_socket) == 1 &&
                   SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
                   SSL_CTX_set_num_tickets(context, 0) == 1,
               "OpenSSL has TLS 1.3");
  if (side == Side::kClient) {  // a server has none to ask for, nor to show
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, refuse_certificate);
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_read_buffer_len(context, 4 * kRecordBytes);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  SSL* const ssl = SSL_new(context);
  state_->ssl.reset(ssl);
  BIO* const bio = BIO_new(method);
  PLEACH_CHECK(ssl != nullptr && bio != nullptr, "OpenSSL has memory");
  SSL_set_app_data(ssl, &state_->key);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  side == Side::kClient ? SSL_set_connect_state(ssl) : SSL_set_accept_state(ssl);
}

TlsSession::~TlsSession() = default;

// What a call of OpenSSL's has come to; sets errno where it has not succeeded.
bool TlsSession::State::succeed(int outcome) {
  const int error = SSL_get_error(ssl.get(), outcome);
  ERR_clear_error();  // this thread's next call would take it for its own
  waits_to_read = error == SSL_ERROR_WANT_READ;
  errno = waits_to_read || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
  return error == SSL_ERROR_NONE;
}

bool TlsSession::State::shake() {
  if (SSL_is_init_finished(ssl.get()) != 0) {
    return true;
  }
  if (!succeed(SSL_do_handshake(ssl.get()))) {
    return false;
  }
  // From here on. A handshake that ended in flush() would else have taken in what comes behind it,
  // which the socket then shows to nobody.
  SSL_set_read_ahead(ssl.get(), 1);
  errno = EPROTO;
  return SSL_session_reused(ssl.get()) == 1;  // by the key
}

bool TlsSession::State::flush() {
  if (!shake()) {
    return false;
  }
  if (record_bytes == 0) {
    return true;
  }
  if (!succeed(SSL_write(ssl.get(), record.data(), static_cast<int>(record_bytes)))) {
    return false;
  }
  record_bytes = 0;
  if (++records == records_per_key) {
    records = 0;
    SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);  // goes with the next record
  }
  return true;
}

ssize_t TlsSession::read(std::span<const iovec> to) {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->shake()) {
    return -1;
  }
  ssize_t total = 0;
  for (const iovec& part : to) {
    for (std::size_t done = 0; done < part.iov_len;) {
      std::size_t count = 0;
      const int outcome = SSL_read_ex(state_->ssl.get(), static_cast<char*>(part.iov_base) + done,
                                      part.iov_len - done, &count);
      if (!state_->succeed(outcome)) {
        return total > 0 ? total : -1;
      }
      done += count;
      total += static_cast<ssize_t>(count);
    }
  }
  return total;
}

ssize_t TlsSession::write(std::span<const iovec> from) {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->flush()) {
    return -1;
  }
  std::size_t taken = 0;
  for (const iovec& part : from) {
    const std::size_t count = std::min(part.iov_len, kRecordBytes - taken);
    if (count > 0) {
      std::memcpy(state_->record.data() + taken, part.iov_base, count);
    }
    taken += count;
  }
  state_->record_bytes = taken;
  if (!state_->flush() && errno != EAGAIN) {
    return -1;
  }
  return static_cast<ssize_t>(taken);
}

bool TlsSession::flush() {
  const std::scoped_lock lock(state_->mutex);
  return state_->flush();
}

bool TlsSession::waits_to_read() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->waits_to_read && SSL_is_init_finished(state_->ssl.get()) == 0;
}

bool TlsSession::has_unread() const {
  const std::scoped_lock lock(state_->mutex);
  return SSL_has_pending(state_->ssl.get()) == 1;
}

}  // namespace pleach
