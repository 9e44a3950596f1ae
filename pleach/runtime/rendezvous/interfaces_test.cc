#include "pleach/runtime/rendezvous/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pleach {
namespace {

TEST(InterfacesTest, AreChosenByNameAsInNccl) {
  const std::vector<Interface> host = {
      {"lo", "127.0.0.1"}, {"lo", "::1"},        {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.5"},
      {"eth0", "fd00::5"}, {"eth1", "10.0.1.5"}, {"ib0", "192.168.1.5"},    {"eth10", "10.0.2.5"},
  };
  const std::vector<Interface> container = {{"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}};
  const std::vector<Interface> alone = {{"lo", "127.0.0.1"}};
  struct Case {
    std::vector<Interface> interfaces;
    std::string choice, like;
    std::vector<std::string> addresses;  // empty: an error
  };
  const std::vector<Case> cases = {
      {host, "", "127.0.0.1", {"10.0.0.5", "10.0.1.5", "192.168.1.5", "10.0.2.5"}},
      {host, "", "::1", {"fd00::5"}},
      {host, "eth", "127.0.0.1", {"10.0.0.5", "10.0.1.5", "10.0.2.5"}},
      {host, "eth1", "127.0.0.1", {"10.0.1.5", "10.0.2.5"}},
      {host, "=eth1", "127.0.0.1", {"10.0.1.5"}},
      {host, "=eth10,eth1", "127.0.0.1", {"10.0.2.5", "10.0.1.5"}},
      {host, "ib,eth", "127.0.0.1", {"192.168.1.5", "10.0.0.5", "10.0.1.5", "10.0.2.5"}},
      {host, "=ib0", "::1", {"192.168.1.5"}},
      {host, "eth", "::1", {"fd00::5"}},
      {host, "^docker,lo", "127.0.0.1", {"10.0.0.5", "10.0.1.5", "192.168.1.5", "10.0.2.5"}},
      {host, "^docker,lo,eth", "127.0.0.1", {"192.168.1.5"}},
      {host, "^=eth0,lo,docker0", "127.0.0.1", {"10.0.1.5", "192.168.1.5", "10.0.2.5"}},
      {host, "lo", "127.0.0.1", {"127.0.0.1"}},
      {host, "=eth", "127.0.0.1", {}},
      {host, "wlan", "127.0.0.1", {}},
      {host, ",", "127.0.0.1", {}},
      {container, "", "127.0.0.1", {"172.17.0.1"}},
      {alone, "", "127.0.0.1", {}},
      {{}, "eth", "127.0.0.1", {}},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.choice);
    const auto chosen = choose_addresses(row.interfaces, row.choice, row.like);
    EXPECT_EQ(chosen ? *chosen : std::vector<std::string>(), row.addresses);
  }
  EXPECT_EQ(choose_addresses(container, "eth", "127.0.0.1").error().message,
            "PLEACH_SOCKET_IFNAME 'eth' admits no interface; there are: lo (127.0.0.1), docker0 "
            "(172.17.0.1)");
}

TEST(InterfacesTest, TheLoopbackIsThere) {
  EXPECT_TRUE(std::ranges::any_of(list_interfaces(), [](const Interface& one) {
    return one.name == "lo" && one.address == "127.0.0.1";
  }));
}

}  // namespace
}  // namespace pleach
