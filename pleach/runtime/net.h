// Sockets, addresses and other descriptors of the operating system.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"

namespace pleach {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

// "connect to 127.0.0.1:5: Connection refused", from errno.
Error system_error(std::string_view what);

struct Address {
  std::string host;
  int port = 0;
};
std::string to_text(const Address& address);  // host:port, or [IPv6]:port
// Errors: kInvalidArgument naming `what` and the text.
Result<Address> parse_address(std::string_view text, std::string_view what);

// A listening, non-blocking TCP socket. `host` is a name or number of this machine; port 0 picks a
// free one. Errors: kIo naming the address.
Result<Descriptor> listen_on(const Address& address);
// Starts a non-blocking connect; wait for writability and then call connect_error().
Result<Descriptor> start_connect(const Address& address);
// 0, or the errno with which the connect ended.
int connect_error(int descriptor);
// The next waiting connection, non-blocking, or a closed descriptor when there is none.
Descriptor accept_one(int listener);
Result<Address> local_address(int descriptor);
Status set_nonblocking(int descriptor);
void set_no_delay(int descriptor);

Descriptor make_event();            // an eventfd, non-blocking
void signal_event(int descriptor);  // makes it readable
void clear_event(int descriptor);   // makes it unreadable
Result<Descriptor> make_epoll();
// Adds or changes what epoll reports of a descriptor. `events` are EPOLLIN and the like.
Status watch(int epoll, int descriptor, uint32_t events, uint64_t tag);
void unwatch(int epoll, int descriptor);
// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT). False: the deadline passed.
bool wait_ready(int descriptor, short events, TimePoint deadline);
// Milliseconds until `deadline` for poll and epoll: rounded up, at least 0, at most a minute.
int milliseconds_until(TimePoint deadline, TimePoint now);

}  // namespace pleach
