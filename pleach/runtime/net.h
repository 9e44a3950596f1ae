// Sockets, addresses and other descriptors of the operating system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  int release() { return std::exchange(descriptor_, -1); }  // no longer owns it

 private:
  int descriptor_ = -1;
};

// "connect to 127.0.0.1:5: Connection refused", from errno; out_of_descriptors() where that says
// so.
Error system_error(std::string_view what);
// Whether an errno says that there are no descriptors for more files and sockets.
bool is_out_of_descriptors(int error);
// kInfeasible: "cannot WHAT: this process has none left of its 1024 descriptors (ulimit -n)", or
// the host has none.
Error out_of_descriptors(std::string_view what, int error);
// Lets this process have as many descriptors as it may ask for.
void raise_descriptor_limit();

struct Address {
  std::string host;
  int port = 0;
};
std::string to_text(const Address& address);  // host:port, or [IPv6]:port
// Errors: kInvalidArgument naming `what` and the text.
Result<Address> parse_address(std::string_view text, std::string_view what);

// Whether it is a name of the loopback interface, which only this machine's processes reach.
bool is_loopback(std::string_view host);

// A listening, non-blocking TCP socket. `host` is a name or number of this machine; port 0 picks a
// free one. Errors: kIo naming the address; kTimeout: its name has none within a few seconds.
Result<Descriptor> listen_on(const Address& address);
// Starts a non-blocking connect; wait for writability and then call connect_error(). Errors: kIo;
// kInfeasible: there are no descriptors left; kTimeout: as above.
//   from  a number of this machine that it comes from; empty: the one that reaches the address
Result<Descriptor> start_connect(const Address& address, const std::string& from = {});
// 0, or the errno with which the connect ended.
int connect_error(int descriptor);
// The next waiting connection, non-blocking, or a closed descriptor and errno when there is none.
Descriptor accept_one(int listener);
Result<Address> local_address(int descriptor);
bool is_listening(int descriptor);
Status set_nonblocking(int descriptor);
void set_no_delay(int descriptor);

// The same between processes of one host (one network namespace), by a name that no file has and
// that ends with its listener. Only processes of the same user get to see who accepts.
Result<Descriptor> listen_on_host(const std::string& name);
// Errors: kIo; kTimeout: so many wait there already that none more may; kInfeasible: as above.
Result<Descriptor> connect_on_host(const std::string& name);
// Differs where processes share no memory: on another host, in another container (its network or
// users are others), for another user, and by the name that the host is given.
//   errors  kInfeasible: this process has no descriptors left
Result<std::string> host_identity(std::string_view name);
// PLEACH_HOST: a name that tells apart what is one machine. Empty: it is not set.
//   errors  kInvalidArgument: not letters, digits, '.', '-' and '_', at most 64
Result<std::string> given_host_name();
// Whether it is of the user that this process runs for.
bool is_of_this_user(int socket);
// Over such a connection descriptors travel too. False: not all was taken.
bool send_with_descriptors(int socket, std::span<const std::byte> bytes,
                           std::span<const int> descriptors);
// Like recv(); appends the descriptors that came along, up to eight. -1 and EMFILE or ENFILE: they
// are lost.
ssize_t receive_with_descriptors(int socket, std::span<std::byte> bytes,
                                 std::vector<Descriptor>& descriptors);

// Becomes readable when the process has ended; closed when there is none to be watched: 0 is none.
Descriptor watch_process(int process);
Descriptor make_event();            // an eventfd, non-blocking; closed: no descriptors are left
void signal_event(int descriptor);  // makes it readable
void clear_event(int descriptor);   // makes it unreadable
Result<Descriptor> make_epoll();
// Adds or changes what epoll reports of a descriptor. Errors: kIo; kInfeasible: it is closed, as no
// descriptors were left for it. `events` are EPOLLIN and the like.
Status watch(int epoll, int descriptor, uint32_t events, uint64_t tag);
void unwatch(int epoll, int descriptor);
// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT). False: the deadline passed.
bool wait_ready(int descriptor, short events, TimePoint deadline);
// Milliseconds until `deadline` for poll and epoll: rounded up, at least 0, at most a minute.
int milliseconds_until(TimePoint deadline, TimePoint now);

}  // namespace pleach
