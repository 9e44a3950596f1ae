#include "group.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "background.h"
#include "ending.h"
#include "errors.h"
#include "memory.h"
#include "signals.h"
#include "staging.h"

namespace pleach_torch {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long what is in flight has to end, when its group is left.
constexpr auto kPatience = std::chrono::seconds(5);
// The same when the process ends, with what is being left; then callbacks; and in all, until the
// first rank stops serving the others.
constexpr milliseconds kLastMoment(500);
constexpr milliseconds kLastCallbacks(250);
constexpr milliseconds kFarewell(1000);

// The groups of the process. Never destroyed: threads use it until the process ends.
struct Groups {
  std::mutex mutex;
  std::vector<std::weak_ptr<Group>> all;

  static Groups& of_process() {
    static auto* const groups = new Groups;
    return *groups;
  }

  void add(const std::shared_ptr<Group>& group) {
    const std::scoped_lock lock(mutex);
    std::erase_if(all, [](const auto& one) { return one.expired(); });
    all.push_back(group);
  }
};

}  // namespace

// What a thread that leaves in the background keeps.
struct Group::Handles {
  // Of those that there are, with what is being left.
  static inline std::atomic<int> count = 0;

  Handles() { ++count; }
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Carrier> carrier;                   // guarded by the mutex, as these
  std::shared_ptr<pleach_communicator> communicator;  // null: it has been closed
  int64_t in_flight = 0;
  std::atomic<bool> has_failed = false;
  const std::shared_ptr<Lane> collectives = std::make_shared<Lane>(kMostChunks);
  const std::shared_ptr<Lane> messages = std::make_shared<Lane>(kNoBound);

  std::shared_ptr<pleach_communicator> opened() {
    const std::scoped_lock lock(mutex);
    return communicator;
  }

  void abort(const std::string& whose, const std::string& reason) {
    note_failed();
    if (const auto held = opened()) {
      pleach_communicator_abort(held.get(), reason.c_str());
    }
    for (const auto& lane : {collectives, messages}) {
      lane->fail(failure(whose + ": " + reason));
    }
  }

  void note_failed() {
    if (!has_failed.exchange(true)) {
      const std::scoped_lock lock(mutex);
      if (carrier != nullptr) {
        carrier->note_failed();
      }
    }
  }

  // Lets go of what it holds: descriptors and threads, which no Backend or Work keeps.
  void release() {
    std::unique_lock lock(mutex);
    const auto old_communicator = std::move(communicator);
    const auto old_carrier = std::move(carrier);
    lock.unlock();
    if (old_carrier != nullptr) {
      old_carrier->note_ended();
      if (--count == 0) {
        let_go_of_idle_memory();
      }
    }
  }

  ~Handles() { release(); }
};

std::shared_ptr<Group> Group::join(const JoinOptions& options,
                                   const std::vector<std::shared_ptr<Carrier>>& held) {
  const Call call;
  const std::shared_ptr<Group> group(new Group(options));
  std::shared_ptr<Carrier> carrier;
  for (const std::shared_ptr<Carrier>& one : held) {
    carrier = one->name() == options.shared ? one : carrier;
  }
  TORCH_CHECK(carrier != nullptr || options.shared.empty(), "pleach: process group ", options.name,
              ": the endpoint ", options.shared, " is not there");
  if (carrier == nullptr) {
    carrier = Carrier::open(options.carrier, options.place);
  }
  group->transport_ = pleach_endpoint_transport(carrier->endpoint());
  // To end may take time. The thread that drops it last must not wait.
  group->handles_ = std::shared_ptr<Handles>(
      new Handles, [](Handles* handles) { run_in_background([handles] { delete handles; }); });
  group->handles_->carrier = carrier;
  carrier->note_begun();
  pleach_communicator_options communicator = {};
  communicator.size = sizeof communicator;
  communicator.name = options.name.c_str();
  communicator.landing_places = options.landing_places;
  communicator.place_bytes = options.place_bytes;
  communicator.book = options.book.empty() ? nullptr : options.book.c_str();
  communicator.fails_alone = 1;
  pleach_communicator* created = nullptr;
  const Interruptible interruptible;
  const pleach_status status =
      pleach_communicator_create(carrier->endpoint(), &communicator, &created);
  if (status != PLEACH_OK) {
    carrier->note_failed();
    interruptible.check();
    check(status);
  }
  group->handles_->communicator =
      std::shared_ptr<pleach_communicator>(created, [](pleach_communicator* closed) {
        run_in_background([closed] { pleach_communicator_destroy(closed); });
      });
  interruptible.check();
  Groups::of_process().add(group);
  return group;
}

Group::~Group() {
  leave();
}

std::shared_ptr<pleach_communicator> Group::communicator() const {
  TORCH_CHECK_WITH(DistBackendError, !is_left_, "pleach: process group ", name(),
                   " has been shut down");
  return handle();
}

std::shared_ptr<pleach_communicator> Group::handle() const {
  auto opened = handles_->opened();
  TORCH_CHECK_WITH(DistBackendError, opened != nullptr, "pleach: process group ", name(),
                   " has been shut down");
  return opened;
}

const std::shared_ptr<Lane>& Group::lane(bool is_message) const {
  return is_message ? handles_->messages : handles_->collectives;
}

int64_t Group::chunk_bytes() const {
  return options_.chunk_bytes > 0 ? options_.chunk_bytes : kChunkBytes;
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
  handles_->note_failed();
}

void Group::leave() {
  if (is_ending() || is_left_.exchange(true) || handles_ == nullptr) {
    return;
  }
  run_in_background([handles = handles_] { close(handles); });
}

void Group::close(const std::shared_ptr<Handles>& handles) {
  std::unique_lock lock(handles->mutex);
  const bool is_quiet =
      handles->changed.wait_for(lock, kPatience, [&] { return handles->in_flight == 0; });
  lock.unlock();
  if (!is_quiet) {
    handles->abort("process group", "it was shut down with operations in flight");
  }
  if (const auto opened = handles->opened()) {
    pleach_communicator_close(opened.get());  // whatever comes of it, it is left
  }
  handles->release();
}

void Group::end_process() {
  if (is_ending()) {
    return;
  }
  const Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<Group>> groups;
  {
    const std::scoped_lock lock(Groups::of_process().mutex);
    for (const auto& one : Groups::of_process().all) {
      if (std::shared_ptr<Group> group = one.lock()) {
        groups.push_back(std::move(group));
      }
    }
  }
  for (const auto& group : groups) {
    const std::shared_ptr<Handles> handles = group->handles_;
    std::unique_lock lock(handles->mutex);
    handles->changed.wait_until(lock, start + kLastMoment, [&] { return handles->in_flight == 0; });
  }
  await_background(start + kLastMoment);
  begin_ending(kLastCallbacks);
  for (const auto& group : groups) {
    group->is_left_ = true;
  }
  // Operations in flight are left to the end of the process, with all that they hold.
  static auto* const kept = new std::vector<std::shared_ptr<Group>>;
  *kept = std::move(groups);
  Carrier::leave_all(start + kFarewell);
}

}  // namespace pleach_torch
