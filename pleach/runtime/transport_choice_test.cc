// Which transport a job uses where nobody says.
#include "pleach/runtime/transport_choice.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "pleach/runtime/communicator.h"
#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

TEST(ChooseTransport, IsSharedMemoryOnOneHost) {
  for (const auto& [wanted, chosen] : {std::pair("auto", "shm"), std::pair("tcp", "tcp")}) {
    const auto store = make_local_store();
    support::on_every_rank(3, [&](Rank rank) {
      const GroupOfRanks group{*store, rank, 3, std::chrono::seconds(20)};
      const auto choice = choose_transport(group, "a", wanted);
      ASSERT_TRUE(choice) << choice.error().message;
      EXPECT_EQ(choice->transport, chosen);
      EXPECT_EQ(choice->hosts, (std::vector<int32_t>{0, 0, 0}));
    });
  }
}

TEST(ChooseTransport, IsWhatJoinsAllRanks) {
  using Hosts = std::vector<int32_t>;
  EXPECT_EQ(best_transport(Hosts{0}), "shm");
  EXPECT_EQ(best_transport(Hosts{0, 0, 0}), "shm");
  EXPECT_EQ(best_transport(Hosts{0, 1, 2}), "tcp");
  EXPECT_EQ(best_transport(Hosts{0, 1, 1}), "host");
  EXPECT_EQ(best_transport(Hosts{0, 1, 0, 1}), "host");
  const Hosts all = {0, 1, 1, 2};
  EXPECT_EQ(hosts_of(all, std::vector<Rank>{{3}, {1}, {2}}), (Hosts{0, 1, 1}));
  EXPECT_EQ(hosts_of(all, std::vector<Rank>{{1}, {2}}), (Hosts{0, 0}));
  EXPECT_EQ(hosts_of({}, std::vector<Rank>{{1}, {2}}), Hosts{});
}

TEST(ChooseTransport, RefusesHostsThatAreBeyondItsReach) {
  for (const char* transport : {"auto", "tcp", "tcp,sockets=2", "host"}) {
    EXPECT_TRUE(check_hosts(transport, 2)) << transport;
  }
  EXPECT_TRUE(check_hosts("shm", 1));
  EXPECT_EQ(check_hosts("shm", 2).error().message, "shm keeps all ranks on one host");
  EXPECT_EQ(check_hosts("inproc", 2).error().message, "inproc keeps all ranks in one process");
}

// Endpoints of ranks that say nothing but where they are.
void expect_transport(const std::vector<std::string>& host_names, const std::string& transport,
                      const std::vector<int32_t>& hosts) {
  const auto store = make_local_store();
  const auto ranks = static_cast<int32_t>(host_names.size());
  support::on_every_rank(ranks, [&](Rank rank) {
    const auto endpoint = Endpoint::create({.rank = rank,
                                            .rank_count = ranks,
                                            .store = store,
                                            .deadline = std::chrono::seconds(20),
                                            .host_name = host_names[rank.index()]});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    EXPECT_EQ((*endpoint)->transport(), transport);
    EXPECT_EQ((*endpoint)->hosts(), hosts);
    const auto communicator = Communicator::create(*endpoint);
    ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
    EXPECT_TRUE((*communicator)->barrier());
    EXPECT_TRUE((*communicator)->close());
  });
}

TEST(ChooseTransport, IsAnEndpointsOwnWhereNoneIsNamed) {
  expect_transport({"a", "a", "a"}, "shm", {0, 0, 0});
  expect_transport({"a", "b"}, "tcp", {0, 1});
  expect_transport({"a", "b", "b"}, "host", {0, 1, 1});
}

}  // namespace
}  // namespace pleach
