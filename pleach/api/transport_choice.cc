#include "pleach/api/transport_choice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

#include "pleach/base/files.h"

namespace pleach {
namespace {

// What ranks have in common that may share memory: the host, since it was started, the network
// namespace and the user.
std::string host_identity() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    name = {"unknown"};
  }
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id", 1 << 10);
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return fmt::format("{} {} {} {}", name.data(), boot ? *boot : "", network.string(), getuid());
}

}  // namespace

Result<TransportChoice> choose_transport(const GroupOfRanks& group, const std::string& name,
                                         const std::string& wanted) {
  PLEACH_ASSIGN(hosts, gather(group, name + "/hosts", host_identity()));
  const auto judge = [&]() -> Result<std::string> {
    return std::string(
        std::ranges::adjacent_find(hosts, std::not_equal_to()) == hosts.end() ? "one" : "more");
  };
  PLEACH_ASSIGN(said, broadcast(group, name, judge));
  PLEACH_ASSIGN(word, std::move(said));
  const bool spans_hosts = word == "more";
  return TransportChoice{wanted != kAutoTransport ? wanted
                         : spans_hosts            ? "tcp"
                                                  : "shm",
                         spans_hosts};
}

}  // namespace pleach
