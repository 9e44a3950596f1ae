// Launch: who am I among the ranks, as the starter tells it; and starting ranks on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/secret.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

struct LaunchEnvironment {
  std::string starter;  // "pleach", "torchrun", "openmpi", "mpich", "slurm"
  Rank rank;
  int32_t rank_count = 1;
  std::string store_host = "127.0.0.1";
  int store_port = 0;
  int listen_descriptor = -1;   // rank 0 under our own starter
  std::string key_prefix;       // names the job (torchrun: and its restart)
  std::string rendezvous_file;  // not empty: one machine, rank 0 publishes its port there
  JobSecret secret;
  std::string interface;  // empty: any

  // Whether others than this machine's processes may take part in the job: it listens beyond
  // loopback, and has no secret.
  bool is_open_to_strangers() const;
};

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> process_environment(const std::string& name);

// Reads the variables of pleach's own starter, torchrun, Open MPI, MPICH (PMI) and Slurm, in this
// order. None set: an empty optional. Errors: kInvalidArgument naming the variable and its value.
// The store's address is PLEACH_STORE (host:port or [IPv6]:port) or MASTER_ADDR and
// PLEACH_STORE_PORT or MASTER_PORT + 1 (torchrun's own store listens on MASTER_PORT); on one
// machine under mpirun or srun it is published in a file named by user and job when neither is set.
// PLEACH_SOCKET_IFNAME is the interface (runtime/rendezvous/interfaces.h).
Result<std::optional<LaunchEnvironment>> detect_launch(const EnvironmentLookup& lookup);

// The job's secret: PLEACH_SECRET, or the first line of the file PLEACH_SECRET_FILE, which only its
// owner may read. PLEACH_REQUIRE_SECRET=1 refuses to do without. As with_tls() has it.
Result<JobSecret> find_secret(const EnvironmentLookup& lookup);
// A secret of a job whose ranks encrypt what they say over TCP, if PLEACH_TLS=1 says so. Errors:
// kInvalidArgument: it is none.
Result<JobSecret> with_tls(const EnvironmentLookup& lookup, JobSecret secret);

// The store of the job that `environment` describes. Errors: as make_tcp_store.
Result<std::unique_ptr<Store>> make_store(const LaunchEnvironment& environment, Duration deadline);

struct StartOptions {
  int32_t rank_count = 1;
  std::vector<std::string> arguments;  // the command line to run, argv[0] first
  Duration deadline =
      std::chrono::seconds(30);  // after the first failure, before the rest is killed
  // More than 1: PLEACH_HOST tells the ranks that they are on so many hosts, evenly.
  int32_t host_count = 1;
  // After the first failure, before the rest is sent SIGTERM; none: it hears of the failure itself.
  std::optional<Duration> patience = {};
  // Told each line that a rank prints, without its end; none: they print where this process does.
  std::function<void(Rank rank, bool is_error, std::string_view line)> on_line = {};
  // Told at once of the first rank that fails.
  std::function<void(const struct RanksEnd&)> failed = nullptr;
};
// How ranks have ended: all well, or what the first that failed did.
struct RanksEnd {
  int code = 0;  // 0: all well; of its exit, or 128 + signal
  Rank rank;
  int signal = 0;  // 0: it ended by itself
};
// Starts the ranks as processes on this machine, with a secret of their own in PLEACH_SECRET, waits
// for all, and ends those that remain when one has failed. SIGINT, SIGTERM, SIGHUP and SIGQUIT are
// passed on, after which whoever remains has the deadline to end, and so are SIGUSR1 and SIGUSR2.
// Ranks end with this process.
Result<RanksEnd> start_ranks(const StartOptions& options);

}  // namespace pleach
