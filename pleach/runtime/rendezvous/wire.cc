#include "pleach/runtime/rendezvous/wire.h"

#include <sys/socket.h>

namespace pleach {

ssize_t Wire::read(std::span<const iovec> to) {
  return tls_ != nullptr ? tls_->read(to)
                         : readv(socket_.get(), to.data(), static_cast<int>(to.size()));
}

ssize_t Wire::write(std::span<const iovec> from) {
  if (tls_ != nullptr) {
    return tls_->write(from);
  }
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(from.data());  // sendmsg reads only
  message.msg_iovlen = from.size();
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

ssize_t Wire::read(std::span<char> to) {
  const iovec part = {to.data(), to.size()};
  return read(std::span(&part, 1));
}

ssize_t Wire::write(std::string_view from) {
  const iovec part = {const_cast<char*>(from.data()), from.size()};
  return write(std::span(&part, 1));
}

}  // namespace pleach
