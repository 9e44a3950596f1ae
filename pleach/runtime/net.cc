#include "pleach/runtime/net.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <thread>

#include "pleach/base/file_size_limit.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr std::chrono::seconds kLookUpTime{5};

using Found = std::pair<int, AddressList>;  // with getaddrinfo's error

Found look_up_now(const Address& address, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  return {error, AddressList(found, [](addrinfo* list) {
            if (list != nullptr) {
              freeaddrinfo(list);
            }
          })};
}

Result<AddressList> look_up(const Address& address) {
  Found found = look_up_now(address, AI_NUMERICHOST);
  if (found.first == EAI_NONAME) {
    // A server of names may take minutes to say nothing, and cannot be interrupted.
    std::packaged_task<Found()> task([address] { return look_up_now(address, 0); });
    std::future<Found> answer = task.get_future();
    std::thread(std::move(task)).detach();
    const TimePoint end = SteadyClock().now() + kLookUpTime;
    while (answer.wait_for(kInterruptionInterval) != std::future_status::ready &&
           SteadyClock().now() < end && !is_interrupted()) {
    }
    if (answer.wait_for(Duration::zero()) != std::future_status::ready) {
      return Error{ErrorCode::kTimeout,
                   fmt::format("host {}: nobody says what its address is within {} s",
                               pleach::quoted(address.host), kLookUpTime.count())};
    }
    found = answer.get();
  }
  if (found.first != 0) {
    return Error{ErrorCode::kIo, fmt::format("host {}: {}", pleach::quoted(address.host),
                                             gai_strerror(found.first))};
  }
  return std::move(found.second);
}

Descriptor open_socket(const addrinfo& info) {
  return Descriptor(
      socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info.ai_protocol));
}

}  // namespace

void Descriptor::close() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

Error system_error(std::string_view what) {
  const int number = errno;
  rlimit addresses = {};
  const bool is_limited = number == ENOMEM && getrlimit(RLIMIT_AS, &addresses) == 0 &&
                          addresses.rlim_cur != RLIM_INFINITY;
  return is_out_of_descriptors(number)
             ? out_of_descriptors(what, number)
             : Error{ErrorCode::kIo, fmt::format("{}: {}{}", what, write_cause(number),
                                                 is_limited ? " (ulimit -v)" : "")};
}

bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE;
}

Error out_of_descriptors(std::string_view what, int error) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string who =
      error == ENFILE ? "the host has no descriptors left"
                      : fmt::format("this process has none left of its {} descriptors (ulimit -n)",
                                    limit.rlim_cur);
  return Error{ErrorCode::kInfeasible, fmt::format("cannot {}: {}", what, who)};
}

void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    // Without it there are fewer: who runs out of them says so.
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  }
}

std::string to_text(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "",
                     address.port);
}

Result<Address> parse_address(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  // Without brackets nobody knows which colon is the port's.
  const bool is_clear = is_bracketed || host.find(':') == std::string_view::npos;
  if (is_bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  if (colon == std::string_view::npos || !is_clear || host.empty()) {
    return invalid(
        fmt::format("{} {} is not host:port or [IPv6]:port", what, pleach::quoted(text)));
  }
  PLEACH_ASSIGN(port, parse_integer(text.substr(colon + 1), what, 1, 65535));
  return Address{std::string(host), static_cast<int>(port)};
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

Result<Descriptor> listen_on(const Address& address) {
  PLEACH_ASSIGN(found, look_up(address));
  Error error{ErrorCode::kIo, fmt::format("listen on {}: no address", to_text(address))};
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    Descriptor listener = open_socket(*info);
    const int yes = 1;
    if (listener.is_open() &&
        setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(listener.get(), info->ai_addr, info->ai_addrlen) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    error = system_error(fmt::format("listen on {}", to_text(address)));
  }
  return error;
}

Result<Descriptor> start_connect(const Address& address, const std::string& from) {
  PLEACH_ASSIGN(found, look_up(address));
  AddressList own(nullptr, [](addrinfo*) {});
  if (!from.empty()) {
    PLEACH_SET(own, look_up({from, 0}));
  }
  Error error{ErrorCode::kIo, fmt::format("connect to {}: no address", to_text(address))};
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    Descriptor connection = open_socket(*info);
    if (connection.is_open() &&
        (own == nullptr || bind(connection.get(), own->ai_addr, own->ai_addrlen) == 0) &&
        (connect(connection.get(), info->ai_addr, info->ai_addrlen) == 0 || errno == EINPROGRESS)) {
      return connection;
    }
    error = system_error(fmt::format("connect to {}", to_text(address)));
  }
  return error;
}

int connect_error(int descriptor) {
  int error = 0;
  socklen_t length = sizeof(error);
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Descriptor accept_one(int listener) {
  return Descriptor(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Result<Address> local_address(int descriptor) {
  sockaddr_storage name = {};
  socklen_t length = sizeof(name);
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (getsockname(descriptor, generic, &length) != 0) {
    return system_error("address of a socket");
  }
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  const int error = getnameinfo(generic, length, host, sizeof(host), port, sizeof(port),
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) {
    return Error{ErrorCode::kIo, fmt::format("address of a socket: {}", gai_strerror(error))};
  }
  PLEACH_ASSIGN(number, parse_integer(port, "port", 0, 65535));
  return Address{host, static_cast<int>(number)};
}

bool is_listening(int descriptor) {
  int value = 0;
  socklen_t length = sizeof(value);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value != 0;
}

Status set_nonblocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) {
    return system_error(fmt::format("descriptor {}", descriptor));
  }
  return ok();
}

void set_no_delay(int descriptor) {
  const int yes = 1;
  // Speed only: a connection without it works too.
  static_cast<void>(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
}

namespace {

// In the abstract namespace: its first byte is 0.
Result<std::pair<sockaddr_un, socklen_t>> host_address(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return invalid(fmt::format("a name of {} bytes for a socket", name.size()));
  }
  std::ranges::copy(name, address.sun_path + 1);
  return std::pair(address,
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

Descriptor open_on_host() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

constexpr std::size_t kMostDescriptors = 8;
using ControlBytes = std::array<std::byte, CMSG_SPACE(kMostDescriptors * sizeof(int))>;

}  // namespace

Result<Descriptor> listen_on_host(const std::string& name) {
  PLEACH_ASSIGN(address, host_address(name));
  Descriptor listener = open_on_host();
  if (!listener.is_open() ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address.first), address.second) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return system_error(fmt::format("listen on {}", name));
  }
  return listener;
}

Result<Descriptor> connect_on_host(const std::string& name) {
  PLEACH_ASSIGN(address, host_address(name));
  Descriptor connection = open_on_host();
  if (!connection.is_open() ||
      connect(connection.get(), reinterpret_cast<sockaddr*>(&address.first), address.second) != 0) {
    const bool is_full = connection.is_open() && errno == EAGAIN;
    const Error error = system_error(fmt::format("connect to {}", name));
    return is_full ? Error{ErrorCode::kTimeout, error.message} : error;
  }
  return connection;
}

bool is_of_this_user(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

bool send_with_descriptors(int socket, std::span<const std::byte> bytes,
                           std::span<const int> descriptors) {
  PLEACH_CHECK(descriptors.size() <= kMostDescriptors, "a few descriptors travel at once");
  iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) ControlBytes control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return sendmsg(socket, &message, MSG_NOSIGNAL) == std::ssize(bytes);
}

ssize_t receive_with_descriptors(int socket, std::span<std::byte> bytes,
                                 std::vector<Descriptor>& descriptors) {
  iovec part = {bytes.data(), bytes.size()};
  alignas(cmsghdr) ControlBytes control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* header = count < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    for (std::size_t next = 0; CMSG_LEN(next + sizeof(int)) <= header->cmsg_len;
         next += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + next, sizeof(int));
      Descriptor received(descriptor);  // all are owned, and closed where they are too many
      if (descriptors.size() < kMostDescriptors) {
        descriptors.push_back(std::move(received));
      }
    }
  }
  // Descriptors that find no room in this process are lost on the way.
  if (count >= 0 && (message.msg_flags & MSG_CTRUNC) != 0 &&
      !Descriptor(fcntl(socket, F_DUPFD_CLOEXEC, 0)).is_open()) {
    return -1;
  }
  return count;
}

Result<std::string> host_identity(std::string_view name) {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (const int error = errno; !file && is_out_of_descriptors(error)) {
    return out_of_descriptors("tell this host from others", error);
  }
  std::getline(file, boot);
  struct stat network = {}, users = {};
  stat("/proc/self/ns/net", &network);
  stat("/proc/self/ns/user", &users);
  return fmt::format("{}/{}/{}/{}/{}", boot.empty() ? "unknown" : boot, network.st_ino,
                     users.st_ino, getuid(), name);
}

Result<std::string> given_host_name() {
  constexpr std::size_t kMostLetters = 64;
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  const char* const given = std::getenv("PLEACH_HOST");
  std::string name = given == nullptr ? "" : given;
  if (name.size() > kMostLetters || name.find_first_not_of(kLetters) != std::string::npos) {
    return invalid("PLEACH_HOST",
                   fmt::format("{} is not up to {} letters, digits, '.', '-' and '_'",
                               pleach::quoted(name), kMostLetters));
  }
  return name;
}

Descriptor watch_process(int process) {
  return Descriptor(process > 1 ? static_cast<int>(syscall(SYS_pidfd_open, process, 0)) : -1);
}

Descriptor make_event() {
  return Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void signal_event(int descriptor) {
  const uint64_t one = 1;
  // It can only fail when it is readable already.
  static_cast<void>(!write(descriptor, &one, sizeof(one)));
}

void clear_event(int descriptor) {
  uint64_t count = 0;
  static_cast<void>(!read(descriptor, &count, sizeof(count)));
}

Result<Descriptor> make_epoll() {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return system_error("epoll");
  }
  return epoll;
}

Status watch(int epoll, int descriptor, uint32_t events, uint64_t tag) {
  if (descriptor < 0) {
    return out_of_descriptors("wait for an event", EMFILE);
  }
  epoll_event event = {};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event) == 0 ||
      (errno == ENOENT && epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0)) {
    return ok();
  }
  return system_error(fmt::format("epoll of descriptor {}", descriptor));
}

void unwatch(int epoll, int descriptor) {
  epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, nullptr);
}

bool wait_ready(int descriptor, short events, TimePoint deadline) {
  const SteadyClock clock;
  while (true) {
    pollfd waiting = {descriptor, events, 0};
    const TimePoint now = clock.now();
    if (poll(&waiting, 1, milliseconds_until(deadline, now)) > 0) {
      return true;
    }
    if (now >= deadline) {
      return false;
    }
  }
}

int milliseconds_until(TimePoint deadline, TimePoint now) {
  constexpr int64_t kMinute = 60'000;
  if (deadline <= now) {
    return 0;  // the difference of the far past would overflow
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<int64_t>(left, kMinute));
}

}  // namespace pleach
