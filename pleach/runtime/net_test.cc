#include "pleach/runtime/net.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <string>

namespace pleach {
namespace {

TEST(NetTest, AddressesOfEveryFamilyAreReadAsTheyAreWritten) {
  for (const Address& address : {Address{"host-1.example", 29'500}, Address{"127.0.0.1", 1},
                                 Address{"fd00::2", 65'535}, Address{"fe80::1%eth0", 80}}) {
    const Result<Address> read = parse_address(to_text(address), "address");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->host, address.host);
    EXPECT_EQ(read->port, address.port);
  }
  EXPECT_EQ(to_text({"fd00::2", 29'500}), "[fd00::2]:29500");
  EXPECT_EQ(to_text({"10.0.0.1", 29'500}), "10.0.0.1:29500");
}

TEST(NetTest, TextThatIsNoAddressIsNamed) {
  for (const std::string text :
       {"", ":", "host", ":29500", "[]:1", "fd00::2", "::1", "fd00::2:29500", "[::1", "[::1]"}) {
    const Result<Address> read = parse_address(text, "PLEACH_STORE");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, "PLEACH_STORE '" + text + "' is not host:port or [IPv6]:port");
  }
  for (const std::string text : {"host:", "host:0", "host:65536", "[::1]:x", "host:-1"}) {
    EXPECT_FALSE(parse_address(text, "PLEACH_STORE")) << text;
  }
}

// By number, over the loopback of each family that this machine has.
TEST(NetTest, ConnectsToWhereItListens) {
  int families = 0;
  for (const std::string host : {"127.0.0.1", "::1"}) {
    const Result<Descriptor> listener = listen_on({host, 0});
    if (!listener) {
      continue;
    }
    ++families;
    const Result<Address> bound = local_address(listener->get());
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->host, host);
    const Result<Descriptor> socket = start_connect(*bound);
    ASSERT_TRUE(socket) << socket.error().message;
    const TimePoint soon = SteadyClock().now() + std::chrono::seconds(5);
    ASSERT_TRUE(wait_ready(socket->get(), POLLOUT, soon));
    EXPECT_EQ(connect_error(socket->get()), 0);
    ASSERT_TRUE(wait_ready(listener->get(), POLLIN, soon));
    EXPECT_TRUE(accept_one(listener->get()).is_open());
  }
  EXPECT_GE(families, 1);
}

}  // namespace
}  // namespace pleach
