#include "pleach/runtime/launch/launch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

Result<std::string> need(const EnvironmentLookup& lookup, const std::string& name) {
  const std::optional<std::string> value = lookup(name);
  if (!value || value->empty()) {
    return invalid(fmt::format("{} is not set", name));
  }
  return *value;
}

Result<int64_t> need_integer(const EnvironmentLookup& lookup, const std::string& name,
                             int64_t least, int64_t most) {
  PLEACH_ASSIGN(text, need(lookup, name));
  return parse_integer(text, name, least, most);
}

// A starter: the variables that tell rank and rank count, and how it names the job.
struct Starter {
  const char* name;
  const char* rank;
  const char* rank_count;
  const char* local_count;  // ranks (or machines) as the starter counts them; null: not told
  bool counts_machines;     // local_count holds the number of machines
  std::string (*job)(const EnvironmentLookup& lookup);  // empty: it does not say
};

std::string first_set(const EnvironmentLookup& lookup, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::optional<std::string> value = lookup(name);
    if (value && !value->empty()) {
      return *value;
    }
  }
  return "";
}

// The parent of a process and when it started, from /proc/PID/stat.
std::optional<std::pair<pid_t, std::string>> parent_and_start(pid_t process) {
  const Result<std::string> text = read_file(fmt::format("/proc/{}/stat", process), 4096);
  if (!text) {
    return std::nullopt;
  }
  // The second field, the name, is in brackets and may hold anything.
  const std::size_t end = text->rfind(')');
  if (end == std::string::npos || end + 2 > text->size()) {
    return std::nullopt;
  }
  const std::vector<std::string_view> fields = split(std::string_view(*text).substr(end + 2), ' ');
  constexpr std::size_t kParent = 1, kStart = 19;
  if (fields.size() <= kStart) {
    return std::nullopt;
  }
  const Result<int64_t> parent = parse_integer(fields[kParent], "pid", 0, INT32_MAX);
  return parent ? std::optional(std::pair(static_cast<pid_t>(*parent), std::string(fields[kStart])))
                : std::nullopt;
}

// A name that all ranks under one starter's process share: that process is their nearest ancestor
// without `variable` in its environment. Its number and start time name it on this machine.
std::string ancestor_name(const std::string& variable) {
  pid_t process = getppid();
  while (process > 1) {
    const Result<std::string> environment =
        read_file(fmt::format("/proc/{}/environ", process), 16 << 20);
    const auto entry = parent_and_start(process);
    if (!environment || !entry) {
      return "";
    }
    const std::string text = std::string(1, '\0') + *environment;
    if (text.find(std::string(1, '\0') + variable + "=") == std::string::npos) {
      return fmt::format("{}.{}", process, entry->second);
    }
    process = entry->first;
  }
  return "";
}

std::string torchrun_job(const EnvironmentLookup& lookup) {
  return fmt::format("{}.{}", lookup("TORCHELASTIC_RUN_ID").value_or("none"),
                     lookup("TORCHELASTIC_RESTART_COUNT").value_or("0"));
}
std::string openmpi_job(const EnvironmentLookup& lookup) {
  const std::string job = first_set(lookup, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  return job.empty() ? ancestor_name("OMPI_COMM_WORLD_RANK") : job;
}
std::string mpich_job(const EnvironmentLookup& lookup) {
  const std::string job = first_set(lookup, {"PMI_JOBID", "PMI_KVSNAME"});
  return job.empty() ? ancestor_name("PMI_RANK") : job;
}
std::string slurm_job(const EnvironmentLookup& lookup) {
  const std::string job = first_set(lookup, {"SLURM_JOB_ID", "SLURM_JOBID"});
  return job.empty() ? "" : job + "." + first_set(lookup, {"SLURM_STEP_ID", "SLURM_STEPID"});
}

constexpr Starter kStarters[] = {
    {"torchrun", "RANK", "WORLD_SIZE", nullptr, false, torchrun_job},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", false,
     openmpi_job},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", false, mpich_job},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES", true, slurm_job},
};

Status read_ranks(const EnvironmentLookup& lookup, const char* rank_name, const char* count_name,
                  LaunchEnvironment& environment) {
  PLEACH_ASSIGN(count, need_integer(lookup, count_name, 1, kMaxRanks));
  PLEACH_ASSIGN(rank, need_integer(lookup, rank_name, 0, count - 1));
  environment.rank = Rank{static_cast<int32_t>(rank)};
  environment.rank_count = static_cast<int32_t>(count);
  return ok();
}

// Errors: kInvalidArgument when the ranks are on several machines and nobody says where to meet.
Status meet_in_file(const EnvironmentLookup& lookup, const Starter& starter,
                    LaunchEnvironment& environment) {
  if (starter.local_count != nullptr && lookup(starter.local_count)) {
    PLEACH_ASSIGN(local, need_integer(lookup, starter.local_count, 1, kMaxRanks));
    if (local != (starter.counts_machines ? 1 : environment.rank_count)) {
      return invalid(
          fmt::format("{}={} with {}={}: the ranks span machines; set PLEACH_STORE to "
                      "host:port of rank 0",
                      starter.local_count, local, starter.rank_count, environment.rank_count));
    }
  }
  if (environment.key_prefix.empty()) {
    return invalid(
        fmt::format("{} is set but nothing names the job; set PLEACH_STORE to host:port "
                    "of rank 0",
                    starter.rank));
  }
  std::string name = environment.key_prefix;
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char letter) { return std::isalnum(letter) == 0 && letter != '.'; }, '_');
  environment.rendezvous_file =
      fmt::format("/tmp/pleach-{}-{}-{:.100}", geteuid(), starter.name, name);
  return ok();
}

Status find_store(const EnvironmentLookup& lookup, const Starter& starter,
                  LaunchEnvironment& environment) {
  if (const auto store = lookup("PLEACH_STORE")) {
    PLEACH_ASSIGN(address, parse_address(*store, "PLEACH_STORE"));
    environment.store_host = address.host;
    environment.store_port = address.port;
    return ok();
  }
  const bool is_torchrun = std::string_view(starter.name) == "torchrun";
  if (!is_torchrun && !lookup("MASTER_ADDR") && !lookup("PLEACH_STORE_PORT")) {
    return meet_in_file(lookup, starter, environment);
  }
  environment.store_host = lookup("MASTER_ADDR").value_or("127.0.0.1");
  if (lookup("PLEACH_STORE_PORT")) {
    PLEACH_ASSIGN(port, need_integer(lookup, "PLEACH_STORE_PORT", 1, 65535));
    environment.store_port = static_cast<int>(port);
    return ok();
  }
  PLEACH_ASSIGN(port, need_integer(lookup, "MASTER_PORT", 1, 65534));
  environment.store_port = static_cast<int>(port) + 1;
  return ok();
}

// The file's first line; only its owner may have read it.
Result<JobSecret> read_secret_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return invalid(
        fmt::format("PLEACH_SECRET_FILE: others than its owner may use {} (mode {:o}); "
                    "chmod 600 it",
                    pleach::quoted(path), status.st_mode & 0777U));
  }
  constexpr int64_t kMostBytes = 4096;
  Result<std::string> text = read_file(path, kMostBytes);
  if (!text) {
    return prefixed("PLEACH_SECRET_FILE", text.error());
  }
  return JobSecret::parse(trim(std::string_view(*text).substr(0, text->find('\n'))),
                          "PLEACH_SECRET_FILE");
}

Result<LaunchEnvironment> own_environment(const EnvironmentLookup& lookup) {
  LaunchEnvironment environment;
  environment.starter = "pleach";
  PLEACH_TRY(read_ranks(lookup, "PLEACH_RANK", "PLEACH_RANK_COUNT", environment));
  PLEACH_ASSIGN(store, need(lookup, "PLEACH_STORE"));
  PLEACH_ASSIGN(address, parse_address(store, "PLEACH_STORE"));
  environment.store_host = address.host;
  environment.store_port = address.port;
  environment.key_prefix = lookup("PLEACH_JOB").value_or("");
  if (environment.rank.value == 0 && lookup("PLEACH_LISTEN_DESCRIPTOR")) {
    PLEACH_ASSIGN(descriptor, need_integer(lookup, "PLEACH_LISTEN_DESCRIPTOR", 0, INT32_MAX));
    environment.listen_descriptor = static_cast<int>(descriptor);
  }
  return environment;
}

// "1": yes; "0", nothing or none: no. What else it may mean to whom is not guessed.
Result<bool> is_switched_on(const EnvironmentLookup& lookup, const std::string& name) {
  const std::string value = lookup(name).value_or("0");
  if (value != "1" && value != "0" && !value.empty()) {
    return invalid(fmt::format("{} is {}, not 1 or 0", name, pleach::quoted(value)));
  }
  return value == "1";
}

Result<JobSecret> look_up_secret(const EnvironmentLookup& lookup) {
  if (const auto secret = lookup("PLEACH_SECRET")) {
    return JobSecret::parse(*secret, "PLEACH_SECRET");
  }
  if (const auto path = lookup("PLEACH_SECRET_FILE")) {
    return read_secret_file(*path);
  }
  PLEACH_ASSIGN(is_required, is_switched_on(lookup, "PLEACH_REQUIRE_SECRET"));
  if (is_required) {
    return invalid(
        "PLEACH_REQUIRE_SECRET=1 and the job has no secret; set PLEACH_SECRET or "
        "PLEACH_SECRET_FILE");
  }
  return JobSecret();
}

// A socket that our starter hands over is one endpoint's: the next one of the process listens anew.
int take_listener(const LaunchEnvironment& environment) {
  static std::atomic<bool> is_taken = false;
  const bool is_from_starter =
      environment.starter == "pleach" && environment.listen_descriptor >= 0;
  return is_from_starter && is_taken.exchange(true) ? -1 : environment.listen_descriptor;
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<JobSecret> with_tls(const EnvironmentLookup& lookup, JobSecret secret) {
  PLEACH_ASSIGN(is_wanted, is_switched_on(lookup, "PLEACH_TLS"));
  if (!is_wanted) {
    return secret;
  }
  if (secret.is_none()) {
    return invalid(
        "PLEACH_TLS=1 and the job has no secret, by which its ranks would encrypt; set "
        "PLEACH_SECRET or PLEACH_SECRET_FILE");
  }
  return secret.encrypting();
}

Result<JobSecret> find_secret(const EnvironmentLookup& lookup) {
  PLEACH_ASSIGN(secret, look_up_secret(lookup));
  return with_tls(lookup, std::move(secret));
}

Result<std::optional<LaunchEnvironment>> detect_launch(const EnvironmentLookup& lookup) {
  if (lookup("PLEACH_RANK")) {
    PLEACH_ASSIGN(environment, own_environment(lookup));
    PLEACH_SET(environment.secret, find_secret(lookup));
    environment.interface = lookup("PLEACH_SOCKET_IFNAME").value_or("");
    return std::optional(std::move(environment));
  }
  for (const Starter& starter : kStarters) {
    // torchrun's names are so plain that both must be there.
    if (!lookup(starter.rank) || !lookup(starter.rank_count)) {
      continue;
    }
    LaunchEnvironment environment;
    environment.starter = starter.name;
    PLEACH_TRY(read_ranks(lookup, starter.rank, starter.rank_count, environment));
    environment.key_prefix = starter.job(lookup);
    PLEACH_TRY(find_store(lookup, starter, environment));
    PLEACH_SET(environment.secret, find_secret(lookup));
    environment.interface = lookup("PLEACH_SOCKET_IFNAME").value_or("");
    return std::optional(std::move(environment));
  }
  return std::optional<LaunchEnvironment>();
}

bool LaunchEnvironment::is_open_to_strangers() const {
  return secret.is_none() && listen_descriptor < 0 && !is_loopback(store_host);
}

Result<std::unique_ptr<Store>> make_store(const LaunchEnvironment& environment, Duration deadline) {
  return make_tcp_store({.host = environment.store_host,
                         .port = environment.store_port,
                         .rank = environment.rank,
                         .rank_count = environment.rank_count,
                         .deadline = deadline,
                         .listen_descriptor = take_listener(environment),
                         .job = environment.key_prefix,
                         .rendezvous_file = environment.rendezvous_file,
                         .secret = environment.secret,
                         .interface = environment.interface,
                         .starter_process = getppid()});
}

}  // namespace pleach
