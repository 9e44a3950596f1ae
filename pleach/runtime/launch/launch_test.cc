#include "pleach/runtime/launch/launch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "pleach/runtime/net.h"

namespace pleach {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string with(Variables variables, const Variables& more, LaunchEnvironment& environment) {
  variables.insert(more.begin(), more.end());
  const auto found = detect_launch(lookup_in(variables));
  if (!found) {
    return found.error().message;
  }
  if (!*found) {
    return "nothing";
  }
  environment = **found;
  return "";
}

TEST(LaunchTest, ReadsEveryStartersVariables) {
  struct Case {
    std::string name;
    Variables variables;
    std::string starter;
    int32_t rank, rank_count;
    std::string host;
    int port;
    std::string job;
  };
  const std::vector<Case> cases = {
      {"pleach",
       {{"PLEACH_RANK", "0"},
        {"PLEACH_RANK_COUNT", "4"},
        {"PLEACH_STORE", "127.0.0.1:900"},
        {"PLEACH_JOB", "local.1"},
        {"PLEACH_LISTEN_DESCRIPTOR", "7"}},
       "pleach",
       0,
       4,
       "127.0.0.1",
       900,
       "local.1"},
      {"torchrun",
       {{"RANK", "3"},
        {"WORLD_SIZE", "8"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_RUN_ID", "abc"},
        {"TORCHELASTIC_RESTART_COUNT", "2"}},
       "torchrun",
       3,
       8,
       "node1",
       29501,
       "abc.2"},
      {"torchrun with a port",
       {{"RANK", "3"},
        {"WORLD_SIZE", "8"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"},
        {"PLEACH_STORE_PORT", "1234"}},
       "torchrun",
       3,
       8,
       "node1",
       1234,
       "none.0"},
      {"Open MPI with a store",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"PMIX_NAMESPACE", "99"},
        {"PLEACH_STORE", "h:5"}},
       "openmpi",
       1,
       2,
       "h",
       5,
       "99"},
      {"MPICH with an address",
       {{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"PMI_JOBID", "j"},
        {"MASTER_ADDR", "h"},
        {"MASTER_PORT", "5"}},
       "mpich",
       1,
       2,
       "h",
       6,
       "j"},
      {"Slurm",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_ID", "17"},
        {"SLURM_STEP_ID", "0"},
        {"PLEACH_STORE", "h:5"}},
       "slurm",
       1,
       2,
       "h",
       5,
       "17.0"},
      {"mpirun within Slurm",
       {{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"},
        {"OMPI_COMM_WORLD_RANK", "5"},
        {"OMPI_COMM_WORLD_SIZE", "6"},
        {"PMIX_NAMESPACE", "9"},
        {"PLEACH_STORE", "h:5"}},
       "openmpi",
       5,
       6,
       "h",
       5,
       "9"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    LaunchEnvironment environment;
    ASSERT_EQ(with(row.variables, {}, environment), "");
    EXPECT_EQ(environment.starter, row.starter);
    EXPECT_EQ(environment.rank, Rank{row.rank});
    EXPECT_EQ(environment.rank_count, row.rank_count);
    EXPECT_EQ(environment.store_host, row.host);
    EXPECT_EQ(environment.store_port, row.port);
    EXPECT_EQ(environment.key_prefix, row.job);
    EXPECT_EQ(environment.rendezvous_file, "");
    EXPECT_EQ(environment.listen_descriptor, row.starter == "pleach" ? 7 : -1);
  }
}

TEST(LaunchTest, RanksOfOneMachineMeetInAFileOfTheirJob) {
  struct Case {
    std::string name;
    Variables variables, more;
    std::string part;
  };
  const Variables openmpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const std::string user = std::to_string(geteuid());
  const std::vector<Case> cases = {
      {"Open MPI",
       openmpi,
       {{"PMIX_NAMESPACE", "12.1@x/../y"}},
       "/tmp/pleach-" + user + "-openmpi-12.1_x_.._y"},
      {"Slurm",
       {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NNODES", "1"}},
       {{"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "3"}},
       "/tmp/pleach-" + user + "-slurm-17.3"},
      {"MPICH",
       {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}},
       {},
       "/tmp/pleach-" + user + "-mpich-" + std::to_string(getppid()) + "."},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    LaunchEnvironment environment;
    ASSERT_EQ(with(row.variables, row.more, environment), "");
    EXPECT_TRUE(environment.rendezvous_file.starts_with(row.part)) << environment.rendezvous_file;
    LaunchEnvironment again;
    ASSERT_EQ(with(row.variables, row.more, again), "");
    EXPECT_EQ(environment.rendezvous_file, again.rendezvous_file);
  }
}

TEST(LaunchTest, BadVariablesAreNamedWithTheirValue) {
  struct Case {
    std::string name;
    Variables variables;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases = {
      {"nobody started us", {{"HOME", "/"}}, {"nothing"}},
      {"RANK alone", {{"RANK", "1"}}, {"nothing"}},
      {"no count", {{"PLEACH_RANK", "1"}}, {"PLEACH_RANK_COUNT is not set"}},
      {"no store", {{"PLEACH_RANK", "1"}, {"PLEACH_RANK_COUNT", "2"}}, {"PLEACH_STORE is not set"}},
      {"rank out of range",
       {{"PLEACH_RANK", "2"}, {"PLEACH_RANK_COUNT", "2"}},
       {"PLEACH_RANK", "2"}},
      {"rank is no number", {{"RANK", "two"}, {"WORLD_SIZE", "2"}}, {"RANK", "two"}},
      {"no ranks", {{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}, {"PMI_SIZE", "0"}},
      {"store without port",
       {{"PLEACH_RANK", "1"}, {"PLEACH_RANK_COUNT", "2"}, {"PLEACH_STORE", "host"}},
       {"PLEACH_STORE", "host"}},
      {"store's port",
       {{"PLEACH_RANK", "1"}, {"PLEACH_RANK_COUNT", "2"}, {"PLEACH_STORE", "h:99999"}},
       {"PLEACH_STORE", "99999"}},
      {"torchrun without port",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}},
       {"MASTER_PORT is not set"}},
      {"several machines",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_NAMESPACE", "7"}},
       {"OMPI_COMM_WORLD_LOCAL_SIZE=2", "PLEACH_STORE"}},
      {"several nodes",
       {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "7"}},
       {"SLURM_NNODES=2", "PLEACH_STORE"}},
      {"no job", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}}, {"SLURM_PROCID", "PLEACH_STORE"}},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    LaunchEnvironment environment;
    const std::string said = with(row.variables, {}, environment);
    for (const std::string& part : row.says) {
      EXPECT_NE(said.find(part), std::string::npos) << said;
    }
  }
}

TEST(LaunchTest, TheSecretIsInTheEnvironmentOrInAFileOfItsOwner) {
  const std::string path = testing::TempDir() + "secret-" + std::to_string(getpid());
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  };
  const std::string good = "0123456789abcdef";
  struct Case {
    std::string name;
    Variables variables;
    std::string file;
    mode_t mode;
    std::string secret, says;
  };
  const std::vector<Case> cases = {
      {"none", {}, "", 0600, "", ""},
      {"variable", {{"PLEACH_SECRET", good}}, "", 0600, good, ""},
      {"short", {{"PLEACH_SECRET", "abc"}}, "", 0600, "", "PLEACH_SECRET has 3 letters"},
      {"empty", {{"PLEACH_SECRET", ""}}, "", 0600, "", "PLEACH_SECRET has 0 letters"},
      {"file", {{"PLEACH_SECRET_FILE", path}}, good + "\nmore", 0600, good, ""},
      {"open file", {{"PLEACH_SECRET_FILE", path}}, good, 0644, "", "(mode 644); chmod 600 it"},
      {"empty file",
       {{"PLEACH_SECRET_FILE", path}},
       "\n",
       0600,
       "",
       "PLEACH_SECRET_FILE has 0 letters"},
      {"no file", {{"PLEACH_SECRET_FILE", "/no/such"}}, "", 0600, "", "/no/such"},
      {"required",
       {{"PLEACH_REQUIRE_SECRET", "1"}},
       "",
       0600,
       "",
       "PLEACH_REQUIRE_SECRET=1 and the job has no secret"},
      {"encrypted", {{"PLEACH_TLS", "1"}, {"PLEACH_SECRET", good}}, "", 0600, good, ""},
      {"encrypted without",
       {{"PLEACH_TLS", "1"}},
       "",
       0600,
       "",
       "PLEACH_TLS=1 and the job has no secret"},
      {"not encrypted", {{"PLEACH_TLS", "0"}}, "", 0600, "", ""},
      {"not required", {{"PLEACH_REQUIRE_SECRET", "0"}}, "", 0600, "", ""},
      {"neither required nor not",
       {{"PLEACH_REQUIRE_SECRET", "no"}},
       "",
       0600,
       "",
       "PLEACH_REQUIRE_SECRET is 'no', not 1 or 0"},
      {"neither encrypted nor not",
       {{"PLEACH_TLS", "true"}, {"PLEACH_SECRET", good}},
       "",
       0600,
       "",
       "PLEACH_TLS is 'true', not 1 or 0"},
      {"required and there",
       {{"PLEACH_REQUIRE_SECRET", "1"}, {"PLEACH_SECRET", good}},
       "",
       0600,
       good,
       ""},
  };
  for (const Variables& starter : std::vector<Variables>{
           {{"PLEACH_RANK", "1"}, {"PLEACH_RANK_COUNT", "2"}, {"PLEACH_STORE", "host:1"}},
           {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PLEACH_STORE", "host:1"}}}) {
    for (const Case& row : cases) {
      SCOPED_TRACE(row.name);
      write(row.file, row.mode);
      LaunchEnvironment environment;
      const std::string said = with(row.variables, starter, environment);
      EXPECT_NE(said.find(row.says), std::string::npos) << said;
      EXPECT_EQ(said.empty(), row.says.empty()) << said;
      if (said.empty()) {
        EXPECT_EQ(environment.secret.text(), row.secret);
        EXPECT_EQ(environment.secret.encrypts(), row.name == "encrypted");
        EXPECT_EQ(environment.is_open_to_strangers(), row.secret.empty());
      }
    }
  }
  unlink(path.c_str());
  LaunchEnvironment local;
  ASSERT_EQ(with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {{"PLEACH_STORE", "127.0.0.1:1"}}, local),
            "");
  EXPECT_FALSE(local.is_open_to_strangers());
}

StartOptions shell(int32_t ranks, const std::string& script,
                   Duration deadline = std::chrono::seconds(20)) {
  return {ranks, {"/bin/sh", "-c", script}, deadline};
}

TEST(StartRanksTest, TellsEveryRankWhoItIs) {
  const std::string path = testing::TempDir() + "ranks-" + std::to_string(getpid());
  const Result<RanksEnd> end = start_ranks(shell(
      3, "echo $PLEACH_RANK of $PLEACH_RANK_COUNT $PLEACH_LISTEN_DESCRIPTOR > " + path +
             ".$PLEACH_RANK; echo $PLEACH_STORE $PLEACH_SECRET > " + path + ".store.$PLEACH_RANK"));
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->code, 0);
  std::string store;
  for (int rank = 0; rank < 3; ++rank) {
    const auto line = [](const std::string& file) {
      std::string text;
      std::getline(std::ifstream(file) >> std::ws, text);
      unlink(file.c_str());
      return text;
    };
    const std::string said = line(path + "." + std::to_string(rank));
    EXPECT_TRUE(said.starts_with(std::to_string(rank) + " of 3")) << said;
    EXPECT_EQ(said.size() > 7, rank == 0) << said;  // only rank 0 has the socket
    const std::string address = line(path + ".store." + std::to_string(rank));
    EXPECT_TRUE(address.starts_with("127.0.0.1:")) << address;
    EXPECT_GT(address.size(), 70U) << address;  // and a secret
    EXPECT_TRUE(store.empty() || store == address);
    store = address;
  }
}

TEST(StartRanksTest, ReturnsTheFirstFailureAndLeavesNobodyBehind) {
  struct Case {
    std::string name, script;
    int code;
  };
  const std::vector<Case> cases = {
      {"all well", "exit 0", 0},
      {"one fails", "test $PLEACH_RANK != 1 || exit 7", 7},
      {"one is killed", "test $PLEACH_RANK != 1 || kill -9 $$", 128 + SIGKILL},
      {"one fails, the rest sleeps", "test $PLEACH_RANK = 1 && exit 3; exec sleep 100", 3},
      {"one fails, the rest is stopped",
       "test $PLEACH_RANK = 1 && { sleep 0.2; exit 4; }; kill -STOP $$; sleep 100", 4},
      {"one fails, the rest ignores signals",
       "test $PLEACH_RANK = 1 && { sleep 0.1; exit 5; }; trap '' TERM INT; while :; do sleep 1; "
       "done",
       5},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const TimePoint start = SteadyClock().now();
    const Result<RanksEnd> end = start_ranks(shell(3, row.script, std::chrono::milliseconds(200)));
    ASSERT_TRUE(end.has_value()) << end.error().message;
    EXPECT_EQ(end->code, row.code);
    EXPECT_EQ(end->rank, row.code == 0 ? Rank{} : Rank{1});
    EXPECT_EQ(end->signal, row.code == 128 + SIGKILL ? SIGKILL : 0);
    EXPECT_LT(SteadyClock().now() - start, std::chrono::seconds(30));
  }
}

// A rank whose connections have closed, which the others notice, may take its time to end: here its
// first thread has gone, and another ends it by a signal when rank 0 has failed for it.
TEST(StartRanksTest, NamesWhomASignalEndedThoughAnotherFailedBefore) {
  const std::string path = testing::TempDir() + "pleach-ending-" + std::to_string(getpid());
  const std::string program =
      "import ctypes, os, platform, signal, threading, time\n"
      "def end():\n"
      "  while ') Z ' not in open('/proc/self/stat').read(): time.sleep(0.01)\n"
      "  open('" +
      path +
      "', 'w').close()\n"
      "  time.sleep(0.5)\n"
      "  os.kill(os.getpid(), signal.SIGKILL)\n"
      "threading.Thread(target=end).start()\n"
      "ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)\n";
  const Result<RanksEnd> end = start_ranks(
      shell(2, "if test $PLEACH_RANK = 0; then while ! test -e " + path +
                   "; do sleep 0.02; done; exit 5; fi; exec python3 -c \"" + program + "\""));
  std::remove(path.c_str());
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->rank, Rank{1});
  EXPECT_EQ(end->signal, SIGKILL);
}

// Of ignored signals of children the kernel keeps nothing to wait for.
TEST(StartRanksTest, EndsWithItsRanksWhereTheSignalOfTheirEndIsIgnored) {
  struct sigaction ignoring = {}, before = {};
  ignoring.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignoring, &before);
  const Result<RanksEnd> end = start_ranks(shell(2, "test $PLEACH_RANK = 0 || exit 6"));
  struct sigaction after = {};
  sigaction(SIGCHLD, &before, &after);
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->code, 6);
  EXPECT_EQ(end->rank, Rank{1});
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(StartRanksTest, PassesSignalsOn) {
  std::thread interrupter([waiting = pthread_self()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    pthread_kill(waiting, SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread): it is handled
  });
  const Result<RanksEnd> end =
      start_ranks(shell(2, "trap 'exit 9' TERM; while :; do sleep 0.05; done"));
  interrupter.join();
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->code, 9);
}

TEST(StartRanksTest, TellsWhatRanksPrintLineByLine) {
  StartOptions options = shell(
      3,
      "echo first $PLEACH_RANK; printf 'two\\nthree\\n\\n'; printf unfinished; echo loud >&2; "
      "test $PLEACH_RANK = 2 || exit 0; head -c 200000 /dev/zero | tr '\\0' x");
  std::vector<std::vector<std::string>> lines(3), errors(3);
  options.on_line = [&](Rank rank, bool is_error, std::string_view line) {
    (is_error ? errors : lines)[rank.index()].emplace_back(line);
  };
  const Result<RanksEnd> end = start_ranks(options);
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->code, 0);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(errors[rank], std::vector<std::string>{"loud"});
    ASSERT_EQ(lines[rank].size(), 5u);
    EXPECT_EQ(lines[rank][0], "first " + std::to_string(rank));
    EXPECT_EQ(std::vector(lines[rank].begin() + 1, lines[rank].begin() + 4),
              (std::vector<std::string>{"two", "three", ""}));
    EXPECT_EQ(lines[rank][4].size(), 10u + (rank == 2 ? 200'000 : 0));
  }
}

// A grandchild that holds the pipe is not waited for.
TEST(StartRanksTest, EndsWithItsRanksWhoeverElseMayPrint) {
  StartOptions options = shell(1, "sleep 20 & echo here");
  std::vector<std::string> lines;
  options.on_line = [&](Rank, bool, std::string_view line) { lines.emplace_back(line); };
  const TimePoint start = SteadyClock().now();
  ASSERT_TRUE(start_ranks(options).has_value());
  EXPECT_LT(SteadyClock().now() - start, std::chrono::seconds(30));
  EXPECT_EQ(lines, std::vector<std::string>{"here"});
}

TEST(StartRanksTest, AsksTheOthersToEndAfterAWhile) {
  StartOptions options = shell(2,
                               "test $PLEACH_RANK = 1 && exit 3; trap 'echo asked; exit 0' TERM; "
                               "while :; do sleep 0.05; done");
  options.patience = std::chrono::milliseconds(100);
  std::vector<std::string> lines;
  options.on_line = [&](Rank, bool, std::string_view line) { lines.emplace_back(line); };
  const Result<RanksEnd> end = start_ranks(options);
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->code, 3);
  EXPECT_EQ(lines, std::vector<std::string>{"asked"});
}

TEST(StartRanksTest, BadRequestsAreRefused) {
  for (const StartOptions& options :
       {StartOptions{0, {"/bin/true"}}, StartOptions{-3, {"/bin/true"}},
        StartOptions{1 << 20, {"/bin/true"}}, StartOptions{2, {}}}) {
    EXPECT_FALSE(start_ranks(options).has_value());
  }
  const Result<RanksEnd> end = start_ranks({2, {"/no/such/program"}});
  ASSERT_FALSE(end.has_value());
  EXPECT_NE(end.error().message.find("/no/such/program: No such file"), std::string::npos)
      << end.error().message;
}

// What else its number may be is left alone, and the store is where it was to be.
TEST(LaunchTest, DescriptorThatIsNoListenerIsNotTakenOver) {
  std::array<int, 2> pipe = {-1, -1};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Descriptor reader(pipe[0]), writer(pipe[1]);
  const Descriptor other = listen_on({"127.0.0.1", 0}).value();
  int port = 0;
  {
    const Descriptor unused = listen_on({"127.0.0.1", 0}).value();
    port = local_address(unused.get())->port;
  }
  for (const int handed : {reader.get(), other.get(), 9999}) {
    SCOPED_TRACE(handed);
    TcpStoreOptions options{.port = port, .rank = Rank{0}, .listen_descriptor = handed};
    const auto store = make_tcp_store(options);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_TRUE((*store)->set("key", "value"));
    options.port = local_address(other.get())->port;
    options.listen_descriptor = reader.get();
    const auto refused = make_tcp_store(options);
    ASSERT_FALSE(refused.has_value());
    EXPECT_TRUE(refused.error().message.starts_with(
        "descriptor " + std::to_string(reader.get()) +
        ", which the starter hands over (PLEACH_LISTEN_DESCRIPTOR), does not listen at port "))
        << refused.error().message;
  }
  EXPECT_EQ(write(writer.get(), "x", 1), 1);
  EXPECT_TRUE(is_listening(other.get()));
}

}  // namespace
}  // namespace pleach
