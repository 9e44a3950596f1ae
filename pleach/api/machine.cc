#include "pleach/api/machine.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/runtime/launch/launch.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/process_memory.h"

namespace pleach {
namespace {

// A "MemAvailable:  123 kB" line of /proc/meminfo, in bytes; 0 when it is not there.
int64_t memory_line_bytes(const std::string& name) {
  const Result<std::string> content = read_file("/proc/meminfo", 1 << 20);
  if (!content) {
    return 0;
  }
  for (const std::string_view line : split(*content, '\n')) {
    if (line.starts_with(name + ":")) {
      const std::string_view number = trim(line.substr(name.size() + 1));
      const auto kibibytes =
          parse_integer(number.substr(0, number.find(' ')), name, 0, INT64_MAX >> 10);
      return kibibytes ? *kibibytes << 10 : 0;
    }
  }
  return 0;
}

std::string why(const std::string& what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

MachineCheck check_loopback() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return {"loopback", false, why("socket")};
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(descriptor, 1) == 0;
  MachineCheck check = {"loopback", bound, bound ? "127.0.0.1 accepts listeners" : why("bind")};
  close(descriptor);
  return check;
}

MachineCheck check_descriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return {"open files", false, why("getrlimit")};
  }
  constexpr rlim_t kEnough = 256;
  return {"open files", limit.rlim_cur >= kEnough,
          fmt::format("{} a process; a rank needs one per peer it talks to", limit.rlim_cur)};
}

MachineCheck check_shared_memory() {
  struct statvfs status = {};
  if (statvfs("/dev/shm", &status) != 0) {
    return {"shared memory", false, why("/dev/shm")};
  }
  const auto free_bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  return {"shared memory", true, format_size(free_bytes) + " free in /dev/shm"};
}

MachineCheck check_single_copies() {
  const Status tried = try_to_read_processes();
  return {"single copies", tried.has_value(),
          tried ? "ranks of this user read each other's memory over shm"
                : tried.error().message + "; shm copies through landing places"};
}

// Tries in a child, so that this process keeps its own namespaces.
MachineCheck check_namespaces() {
  const pid_t child = fork();
  if (child == 0) {
    _exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : errno);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    return {"network namespaces", false, "cannot try"};
  }
  const int cause = WEXITSTATUS(status);
  return {"network namespaces", cause == 0,
          cause == 0 ? "permitted to this user" : std::string("unshare: ") + std::strerror(cause)};
}

MachineCheck check_program(const std::string& name) {
  const std::string path = process_environment("PATH").value_or("/usr/bin:/bin");
  for (const std::string_view folder : split(path, ':')) {
    const std::string candidate = std::string(folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) {
      return {name, true, candidate};
    }
  }
  return {name, false, "not in PATH"};
}

}  // namespace

int64_t available_memory_bytes() {
  return memory_line_bytes("MemAvailable");
}

MachineReport inspect_machine() {
  MachineReport report;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    report.core_count = CPU_COUNT(&cores);
  }
  report.memory_bytes = memory_line_bytes("MemTotal");
  report.available_bytes = available_memory_bytes();
  report.checks = {check_loopback(), check_descriptors(), check_shared_memory(),
                   check_single_copies(), check_namespaces()};
  const bool loopback = report.checks.front().available;
  for (const TransportKind* transport : transports()) {
    const bool usable = loopback || !transport->spans_processes;
    report.checks.push_back({"transport " + transport->name, usable,
                             usable ? transport->summary : "needs the loopback interface"});
  }
  if (!transports().find("ucx")) {
    report.checks.push_back({"transport ucx", false, "built without libucx-dev"});
  }
  for (const char* name : {"mpirun.openmpi", "mpirun.mpich", "mpirun", "torchrun", "srun"}) {
    report.checks.push_back(check_program(name));
  }
  return report;
}

}  // namespace pleach
