// TlsSession: TLS over a socket, between two ends that share a key.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pleach/runtime/rendezvous/secret.h"

namespace pleach {

// TLS 1.3 by a pre-shared key, with an ephemeral exchange, so that who learns the key later reads
// nothing of what was said before; no certificate counts. Nobody is heard before both ends have
// shown that they have the key, and no byte that was changed, left out or said twice.
//
// Never blocks. One thread may read while another writes.
//   source  RFC 8446, 2.2 and 4.2.11 (PSK with (EC)DHE), 5.5 (limits on a key's use)
class TlsSession {
 public:
  enum class Side : uint8_t { kClient, kServer };
  // Borrows the socket, which is connected and non-blocking.
  //   records_per_key  after so many it writes by a new one
  TlsSession(int socket, const Digest& key, Side side, int64_t records_per_key = kRecordsPerKey);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // As many as there are: bytes; -1 and errno: EAGAIN, or EPROTO where it is over or broken.
  ssize_t read(std::span<const iovec> to);
  // Takes a record's at the most, and writes what the socket takes: bytes taken; -1 and errno.
  ssize_t write(std::span<const iovec> from);
  // Whether all that was taken has left; else errno is EAGAIN, or what broke it.
  bool flush();
  bool waits_to_read() const;
  bool has_unread() const;

 private:
  static constexpr int64_t kRecordsPerKey = int64_t{1} << 23;
  struct State;  // OpenSSL's
  std::unique_ptr<State> state_;
};

}  // namespace pleach
