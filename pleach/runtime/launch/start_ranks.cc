#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "pleach/base/signal_mask.h"
#include "pleach/base/text.h"
#include "pleach/runtime/launch/launch.h"
#include "pleach/runtime/launch/rank_output.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/store_server.h"

namespace pleach {
namespace {

constexpr int32_t kMaxLocalRanks = 4096;

// The next of the signals, which are blocked; 0: none is here.
int next_signal(const sigset_t& signals) {
  const timespec at_once = {};
  return std::max(0, sigtimedwait(&signals, nullptr, &at_once));
}

// What a child needs between fork and exec, where nothing may be allocated.
struct Image {
  std::vector<std::string> environment;
  std::vector<char*> environment_pointers;
  std::vector<char*> argument_pointers;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

Image make_image(std::vector<std::string>& arguments, const std::vector<std::string>& variables) {
  Image image;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool is_replaced =
        std::any_of(variables.begin(), variables.end(),
                    [&](const std::string& variable) { return variable.starts_with(name); });
    if (!is_replaced && !name.starts_with("PLEACH_LISTEN_DESCRIPTOR=")) {
      image.environment.push_back(text);
    }
  }
  image.environment.insert(image.environment.end(), variables.begin(), variables.end());
  image.environment_pointers = pointers(image.environment);
  image.argument_pointers = pointers(arguments);
  return image;
}

// The child's part; only what is safe after fork. Returns when it could not run the program.
//   ends  where it is to write, if they are open
void become_rank(const Image& image, pid_t parent, const sigset_t& signals, int kept_descriptor,
                 const RankOutput::Ends& ends) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
    return;
  }
  if (kept_descriptor >= 0) {
    fcntl(kept_descriptor, F_SETFD, 0);
  }
  if (ends.output.is_open() &&
      (dup2(ends.output.get(), STDOUT_FILENO) < 0 || dup2(ends.error.get(), STDERR_FILENO) < 0)) {
    return;
  }
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  execvpe(image.argument_pointers[0], image.argument_pointers.data(),
          image.environment_pointers.data());
}

// Whether the process has begun to end: its connections may have closed, and it cannot be waited
// for as yet. False where the system does not tell.
bool is_ending(pid_t process) {
  constexpr uint64_t kExiting = 4;   // PF_EXITING
  constexpr std::size_t kFlags = 6;  // after the program's name, see proc(5)
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::vector<std::string_view> words =
      split(std::string_view(text).substr(std::min(text.rfind(')') + 2, text.size())), ' ');
  const Result<int64_t> flags =
      parse_integer(words.size() > kFlags ? words[kFlags] : "0", "flags", 0, INT64_MAX);
  return flags && (static_cast<uint64_t>(*flags) & kExiting) != 0;
}

// Children are waited for, also where whoever started this program ignores the signal of their end:
// they would vanish then.
class NoticesChildren {
 public:
  NoticesChildren() {
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &before_);
  }
  NoticesChildren(const NoticesChildren&) = delete;
  NoticesChildren& operator=(const NoticesChildren&) = delete;
  ~NoticesChildren() { sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

class Group {
 public:
  explicit Group(const StartOptions& options) : options_(options), output_(options.on_line) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (herald_.joinable()) {
      herald_.join();
    }
    // Whoever is left after an error.
    signal_all(SIGKILL);
    for (const pid_t process : processes_) {
      if (process > 0) {
        waitpid(process, nullptr, 0);
      }
    }
  }

  Status start();
  RanksEnd wait();

 private:
  Status start_rank(int32_t rank, const Descriptor& listener);
  void reap();
  TimePoint tell_failure(TimePoint now);
  void wait_until(TimePoint deadline, TimePoint now);
  void tell_others();
  bool serve_failure(const Failure& failure, const JobSecret& secret);
  void signal_all(int number) const {
    for (const pid_t process : processes_) {
      if (process > 0) {
        kill(process, number);
      }
    }
  }

  const StartOptions& options_;
  const NoticesChildren notices_children_;
  SignalMask signals_{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  Descriptor signal_;  // readable when one of them is here
  RankOutput output_;
  // By which the ranks find each other.
  struct Job {
    std::string name = fmt::format("local.{}", getpid());
    JobSecret secret = JobSecret::make();
    JobSecret spoken = {};  // as PLEACH_TLS has it
    Address store = {};
  };
  Job job_;
  std::thread herald_;            // of the first failure
  std::vector<pid_t> processes_;  // by rank; 0: has ended
  RanksEnd end_;
  // The first failure.
  struct News {
    std::optional<TimePoint> at = {};
    bool is_told = false;
    std::unique_ptr<StoreServer> server = {};  // that tells them, in rank 0's place
  };
  News news_;
};

Status Group::start() {
  PLEACH_SET(job_.spoken, with_tls(process_environment, job_.secret));
  signal_ = Descriptor(signalfd(-1, &signals_.blocked(), SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_.is_open()) {
    return system_error("wait for signals");
  }
  // Opened here and inherited by rank 0, so that nobody can take the port in between.
  PLEACH_ASSIGN(listener, listen_on({"127.0.0.1", 0}));
  PLEACH_SET(job_.store, local_address(listener.get()));
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    PLEACH_TRY(start_rank(rank, listener));
  }
  return ok();
}

Status Group::start_rank(int32_t rank, const Descriptor& listener) {
  std::vector<std::string> arguments = options_.arguments;
  std::vector<std::string> variables = {
      fmt::format("PLEACH_RANK={}", rank),
      fmt::format("PLEACH_RANK_COUNT={}", options_.rank_count),
      fmt::format("PLEACH_STORE={}", to_text(job_.store)),
      "PLEACH_JOB=" + job_.name,
      fmt::format("PLEACH_SECRET={}", job_.secret.text()),
  };
  if (options_.host_count > 1) {
    variables.push_back(
        fmt::format("PLEACH_HOST={}", int64_t{rank} * options_.host_count / options_.rank_count));
  }
  if (rank == 0) {
    variables.push_back(fmt::format("PLEACH_LISTEN_DESCRIPTOR={}", listener.get()));
  }
  const Image image = make_image(arguments, variables);
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return system_error("make a pipe");
  }
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  RankOutput::Ends output;
  if (options_.on_line) {
    PLEACH_SET(output, output_.open(Rank{rank}));
  }
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    become_rank(image, parent, signals_.before(), rank == 0 ? listener.get() : -1, output);
    const int error = errno;
    static_cast<void>(!write(write_end.get(), &error, sizeof(error)));
    _exit(127);
  }
  if (process < 0) {
    const bool is_limited = errno == EAGAIN;
    Error error = system_error(fmt::format("start rank {}", rank));
    error.message += is_limited ? " (ulimit -u)" : "";
    return error;
  }
  processes_.push_back(process);
  write_end.close();
  int error = 0;
  // The pipe closes when the program runs.
  if (read(read_end.get(), &error, sizeof(error)) == static_cast<ssize_t>(sizeof(error))) {
    errno = error;
    return system_error(fmt::format("run {}", options_.arguments.front()));
  }
  return ok();
}

// Of those that have failed when the first is told, one that a signal ended is the first: the
// others may have heard of it.
void Group::reap() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    int status = 0;
    if (processes_[rank] > 0 && waitpid(processes_[rank], &status, WNOHANG) == processes_[rank]) {
      processes_[rank] = 0;
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      const int code = signal != 0 ? 128 + signal : WEXITSTATUS(status);
      if (code != 0 && (end_.code == 0 || (!news_.is_told && end_.signal == 0 && signal != 0))) {
        end_ = {code, Rank{static_cast<int32_t>(rank)}, signal};
      }
    }
  }
}

// Tells of the first failure: of a signal at once; of a code when it has had time to come to light
// that a signal ended another rank, which closes its connections before it can be waited for.
//   returns  when to look again
TimePoint Group::tell_failure(TimePoint now) {
  constexpr Duration kLook = std::chrono::milliseconds(100);
  constexpr Duration kLongest = std::chrono::seconds(5);
  if (end_.code == 0 || news_.is_told) {
    return TimePoint::max();
  }
  news_.at = news_.at.value_or(now);
  const Duration passed = now - *news_.at;
  const bool may_change =
      end_.signal == 0 && std::ranges::any_of(processes_, [](pid_t p) { return p > 0; }) &&
      (passed < kLook || (passed < kLongest && std::ranges::any_of(processes_, [](pid_t p) {
                            return p > 0 && is_ending(p);
                          })));
  if (may_change) {
    return now + kLook / 4;
  }
  news_.is_told = true;
  if (options_.failed) {
    options_.failed(end_);
  }
  tell_others();
  return TimePoint::max();
}

// Waits for a signal, and for what ranks print.
void Group::wait_until(TimePoint deadline, TimePoint now) {
  std::vector<pollfd> waits = {{.fd = signal_.get(), .events = POLLIN, .revents = 0}};
  output_.add_to(waits);
  static_cast<void>(poll(waits.data(), waits.size(), milliseconds_until(deadline, now)));
  output_.read();
}

// The others may wait for it, and it may never have come to the store that would miss it. Where
// rank 0 has ended, whoever comes to its store is told here.
void Group::tell_others() {
  const std::string what = end_.signal != 0 ? fmt::format("was ended by signal {}", end_.signal)
                                            : fmt::format("ended with code {}", end_.code);
  const Failure failure{end_.rank, fmt::format("rank {} {}", end_.rank.value, what)};
  if (processes_.front() == 0 && serve_failure(failure, job_.spoken)) {
    return;
  }
  herald_ = std::thread([failure, where = TcpStoreOptions{.host = job_.store.host,
                                                          .port = job_.store.port,
                                                          .rank = Rank{},
                                                          .rank_count = options_.rank_count,
                                                          .deadline = options_.deadline,
                                                          .job = job_.name,
                                                          .secret = job_.spoken}] {
    fail_from_outside(where, failure);
  });
}

// False: something else has its address.
bool Group::serve_failure(const Failure& failure, const JobSecret& secret) {
  Result<Descriptor> listener = listen_on(job_.store);
  if (!listener) {
    return false;
  }
  auto server = StoreServer::start(std::move(listener).value(), {.rank_count = options_.rank_count,
                                                                 .job = job_.name,
                                                                 .secret = secret,
                                                                 .deadline = options_.deadline,
                                                                 .failure = failure});
  if (server) {
    news_.server = std::move(server).value();
  }
  return server.has_value();
}

RanksEnd Group::wait() {
  constexpr TimePoint kNever = TimePoint::max();
  const SteadyClock clock;
  TimePoint terminate_at = kNever, kill_at = kNever;
  while (true) {
    reap();
    const TimePoint now = clock.now();
    const TimePoint look_at = tell_failure(now);
    if (std::all_of(processes_.begin(), processes_.end(), [](pid_t p) { return p == 0; })) {
      output_.finish();
      return end_;
    }
    if (news_.is_told && kill_at == kNever) {
      kill_at = now + options_.deadline;
      terminate_at = options_.patience ? now + *options_.patience : kNever;
    }
    if (now >= terminate_at) {
      signal_all(SIGTERM);
      terminate_at = kNever;
    }
    if (now >= kill_at) {
      signal_all(SIGKILL);
      kill_at = now + std::chrono::seconds(1);
    }
    wait_until(std::min({now + std::chrono::seconds(1), kill_at, terminate_at, look_at}), now);
    while (const int number = next_signal(signals_.blocked())) {
      if (number == SIGCHLD) {
        continue;
      }
      signal_all(number);
      if (number != SIGUSR1 && number != SIGUSR2) {
        kill_at = std::min(kill_at, clock.now() + options_.deadline);
      }
    }
  }
}

}  // namespace

Result<RanksEnd> start_ranks(const StartOptions& options) {
  if (options.rank_count < 1 || options.rank_count > kMaxLocalRanks) {
    return invalid(fmt::format("{} ranks on this machine: 1 to {} can be started",
                               options.rank_count, kMaxLocalRanks));
  }
  if (options.arguments.empty()) {
    return invalid("no program to run as rank");
  }
  Group group(options);
  PLEACH_TRY(group.start());
  return group.wait();
}

}  // namespace pleach
