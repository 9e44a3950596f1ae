// Ranks as forked processes, for tests that kill and stop them.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach::support {

// Counts, in memory that forked ranks share with who forked them, those that have come so far.
class Arrivals {
 public:
  Arrivals()
      : count_(static_cast<std::atomic<int32_t>*>(mmap(nullptr, sizeof(std::atomic<int32_t>),
                                                       PROT_READ | PROT_WRITE,
                                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    PLEACH_CHECK(count_ != MAP_FAILED, "a test may share a page");
  }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  ~Arrivals() { munmap(count_, sizeof(*count_)); }

  void note() { ++*count_; }
  // Whether so many have come within a minute.
  bool reach(int32_t count) const {
    const TimePoint limit = SteadyClock().now() + std::chrono::minutes(1);
    while (*count_ < count && SteadyClock().now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return *count_ >= count;
  }

 private:
  std::atomic<int32_t>* count_;
};

// Forks one process per rank; what the body returns is collected. Fork before starting threads.
class RankProcesses {
 public:
  // The body gets the options of its TCP store.
  using Body = std::function<std::string(const TcpStoreOptions& options)>;

  RankProcesses(int32_t rank_count, Duration deadline, const Body& body) {
    Descriptor listener = std::move(listen_on({"127.0.0.1", 0})).value();
    const int port = local_address(listener.get())->port;
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      int ends[2] = {-1, -1};
      PLEACH_CHECK(pipe(ends) == 0, "a test may open a pipe");
      const pid_t process = fork();
      if (process == 0) {
        if (rank != 0) {
          listener.close();
        }
        const std::string said = body({.host = "127.0.0.1",
                                       .port = port,
                                       .rank = Rank{rank},
                                       .rank_count = rank_count,
                                       .deadline = deadline,
                                       .listen_descriptor = rank == 0 ? listener.get() : -1,
                                       .job = "test",
                                       .rendezvous_file = ""});
        static_cast<void>(!write(ends[1], said.data(), said.size()));
        _exit(0);
      }
      close(ends[1]);
      processes_.push_back({process, Descriptor(ends[0])});
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() {
    for (const Process& process : processes_) {
      kill(process.id, SIGKILL);
      waitpid(process.id, nullptr, 0);
    }
  }

  void signal(int32_t rank, int number) { kill(processes_[at(rank)].id, number); }

  // Whether the rank ends, and leaves nobody behind who holds what it had, within the limit.
  bool ends(int32_t rank, Duration limit) {
    const TimePoint deadline = SteadyClock().now() + limit;
    return wait_ready(processes_[at(rank)].output.get(), /*POLLIN*/ 1, deadline);
  }

  // What the rank said; "(nothing)" when it ended without a word or did not end in time.
  std::string wait(int32_t rank, Duration limit) {
    const int descriptor = processes_[at(rank)].output.get();
    const TimePoint deadline = SteadyClock().now() + limit;
    std::string said;
    char bytes[4096];
    while (wait_ready(descriptor, /*POLLIN*/ 1, deadline)) {
      const ssize_t count = read(descriptor, bytes, sizeof(bytes));
      if (count <= 0) {
        break;
      }
      said.append(bytes, at(count));
    }
    return said.empty() ? "(nothing)" : said;
  }

 private:
  struct Process {
    pid_t id;
    Descriptor output;
  };
  std::vector<Process> processes_;
};

}  // namespace pleach::support
