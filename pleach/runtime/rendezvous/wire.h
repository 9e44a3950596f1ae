// Wire: what is said over a connected, non-blocking socket, as it is or encrypted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/tls_session.h"

namespace pleach {

// One thread may read while another writes.
class Wire {
 public:
  Wire() = default;
  // As it is.
  explicit Wire(Descriptor socket) : socket_(std::move(socket)) {}
  // Encrypted, by a key that both ends have and nobody else.
  Wire(Descriptor socket, const Digest& key, TlsSession::Side side)
      : socket_(std::move(socket)), tls_(std::make_unique<TlsSession>(socket_.get(), key, side)) {}

  bool is_open() const { return socket_.is_open(); }
  int socket() const { return socket_.get(); }
  // Of one that is not encrypted.
  Descriptor take_socket() && { return std::move(socket_); }
  void close() {
    tls_.reset();
    socket_.close();
  }

  // As readv(): bytes; 0: it is over; -1: see errno; EPROTO: it is encrypted, and over.
  ssize_t read(std::span<const iovec> to);
  // As sendmsg(), and no signal comes. Encrypted, what it has taken may wait here: see flush().
  ssize_t write(std::span<const iovec> from);
  ssize_t read(std::span<char> to);
  ssize_t write(std::string_view from);
  // Writes what waits here. False: some of it still does, or the connection is over: see errno.
  bool flush() { return tls_ == nullptr || tls_->flush(); }
  // What is to be written waits until the socket is readable, and somebody reads.
  bool waits_to_read() const { return tls_ != nullptr && tls_->waits_to_read(); }
  // Something is here that the socket does not show any more.
  bool has_unread() const { return tls_ != nullptr && tls_->has_unread(); }

 private:
  Descriptor socket_;
  std::unique_ptr<TlsSession> tls_;  // null: as it is
};

}  // namespace pleach
