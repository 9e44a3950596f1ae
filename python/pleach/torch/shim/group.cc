#include "group.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "errors.h"
#include "memory.h"
#include "staging.h"

namespace pleach_torch {

namespace {

// How long what is in flight has to end, when its group is left.
constexpr auto kPatience = std::chrono::seconds(5);

// The groups of the process, and those that are being left. Never destroyed: threads use it until
// the process ends.
struct Leaving {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;  // that are being left
  std::vector<std::weak_ptr<Group>> groups;

  static Leaving& of_process() {
    static auto* const leaving = new Leaving;
    return *leaving;
  }

  void add(const std::shared_ptr<Group>& group) {
    const std::scoped_lock lock(mutex);
    std::erase_if(groups, [](const auto& one) { return one.expired(); });
    groups.push_back(group);
  }

  // Does it in a thread of its own.
  void run(std::function<void()> task) {
    {
      const std::scoped_lock lock(mutex);
      ++count;
    }
    std::thread([this, task = std::move(task)]() mutable {
      task();
      task = nullptr;
      const std::scoped_lock lock(mutex);
      --count;
      changed.notify_all();
    }).detach();
  }
};

}  // namespace

// What a thread that leaves in the background keeps.
struct Group::Handles {
  // Of those that there are, with what is being left.
  static inline std::atomic<int> count = 0;

  Handles() { ++count; }
  pleach_endpoint* endpoint = nullptr;
  pleach_communicator* communicator = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t in_flight = 0;
  std::atomic<bool> has_failed = false;
  const std::shared_ptr<Lane> collectives = std::make_shared<Lane>(kMostChunks);
  const std::shared_ptr<Lane> messages = std::make_shared<Lane>(kNoBound);

  void abort(const std::string& whose, const std::string& reason) {
    has_failed = true;
    pleach_communicator_abort(communicator, reason.c_str());
    for (const auto& lane : {collectives, messages}) {
      lane->fail(failure(whose + ": " + reason));
    }
  }

  ~Handles() {
    pleach_communicator_destroy(communicator);
    pleach_endpoint_destroy(endpoint);
    if (--count == 0) {
      let_go_of_idle_memory();
    }
  }
};

std::shared_ptr<Group> Group::join(const JoinOptions& options) {
  const std::shared_ptr<Group> group(new Group(options));
  // An endpoint waits for others when it is destroyed: whoever lets go of it last must not.
  group->handles_ = std::shared_ptr<Handles>(new Handles, [](Handles* handles) {
    Leaving::of_process().run([handles] { delete handles; });
  });
  pleach_endpoint_options endpoint = {};
  endpoint.size = sizeof endpoint;
  endpoint.rank_count = options.rank_count;
  endpoint.rank = options.rank;
  endpoint.store_host = options.store_host.c_str();
  endpoint.store_port = options.store_port;
  endpoint.listen_descriptor = options.listen_descriptor;
  endpoint.job = options.name.c_str();
  endpoint.transport = options.transport.empty() ? nullptr : options.transport.c_str();
  endpoint.deadline_ms = options.timeout_ms;
  check(pleach_endpoint_create(&endpoint, &group->handles_->endpoint));
  pleach_communicator_options communicator = {};
  communicator.size = sizeof communicator;
  communicator.name = options.name.c_str();
  communicator.landing_places = options.landing_places;
  communicator.place_bytes = options.place_bytes;
  communicator.book = options.book.empty() ? nullptr : options.book.c_str();
  check(pleach_communicator_create(group->handles_->endpoint, &communicator,
                                   &group->handles_->communicator));
  Leaving::of_process().add(group);
  return group;
}

Group::~Group() {
  leave();
}

pleach_communicator* Group::communicator() const {
  TORCH_CHECK_WITH(DistBackendError, !is_left_, "pleach: process group ", name(),
                   " has been shut down");
  return handles_->communicator;
}

pleach_communicator* Group::handle() const {
  return handles_->communicator;
}

const std::shared_ptr<Lane>& Group::lane(bool is_message) const {
  return is_message ? handles_->messages : handles_->collectives;
}

int64_t Group::chunk_bytes() const {
  return options_.chunk_bytes > 0 ? options_.chunk_bytes : kChunkBytes;
}

std::string Group::transport() const {
  return pleach_endpoint_transport(handles_->endpoint);
}

void Group::note_begun() {
  const std::scoped_lock lock(handles_->mutex);
  ++handles_->in_flight;
}

void Group::note_done() {
  const std::scoped_lock lock(handles_->mutex);
  if (--handles_->in_flight == 0) {
    handles_->changed.notify_all();
  }
}

void Group::abort(const std::string& reason) {
  handles_->abort("process group " + name(), reason);
}

bool Group::has_failed() const {
  return handles_->has_failed;
}

void Group::note_failed() {
  handles_->has_failed = true;
}

void Group::leave() {
  if (is_left_.exchange(true) || handles_ == nullptr || handles_->communicator == nullptr) {
    return;
  }
  Leaving::of_process().run([handles = handles_] { close(handles); });
}

void Group::close(const std::shared_ptr<Handles>& handles) {
  std::unique_lock lock(handles->mutex);
  const bool is_quiet =
      handles->changed.wait_for(lock, kPatience, [&] { return handles->in_flight == 0; });
  lock.unlock();
  if (!is_quiet) {
    handles->abort("process group", "it was shut down with operations in flight");
  }
  pleach_communicator_close(handles->communicator);  // whatever comes of it, it is left
}

void Group::leave_all() {
  Leaving& leaving = Leaving::of_process();
  std::vector<std::weak_ptr<Group>> groups;
  {
    const std::scoped_lock lock(leaving.mutex);
    groups = leaving.groups;
  }
  for (const auto& one : groups) {
    if (const std::shared_ptr<Group> group = one.lock()) {
      group->leave();
    }
  }
}

bool Group::await_left(std::chrono::milliseconds longest) {
  Leaving& leaving = Leaving::of_process();
  std::unique_lock lock(leaving.mutex);
  return leaving.changed.wait_for(lock, longest, [&] { return leaving.count == 0; });
}

}  // namespace pleach_torch
