#include "group.h"

#include <thread>
#include <utility>

#include "errors.h"

namespace pleach_torch {

// What a thread that leaves in the background keeps.
struct Group::Handles {
  pleach_endpoint* endpoint = nullptr;
  pleach_communicator* communicator = nullptr;
  std::mutex mutex;
  std::condition_variable closed;
  bool is_closed = false;

  ~Handles() {
    pleach_communicator_destroy(communicator);
    pleach_endpoint_destroy(endpoint);
  }
};

std::shared_ptr<Group> Group::join(const JoinOptions& options) {
  const std::shared_ptr<Group> group(new Group(options));
  group->handles_ = std::make_shared<Handles>();
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
  return group;
}

Group::~Group() {
  leave(std::chrono::milliseconds(0));
}

pleach_communicator* Group::communicator() const {
  TORCH_CHECK_WITH(DistBackendError, !is_left_, "pleach: process group ", name(),
                   " has been shut down");
  return handles_->communicator;
}

std::chrono::milliseconds Group::timeout() const {
  return std::chrono::milliseconds(options_.timeout_ms);
}

std::string Group::transport() const {
  return pleach_endpoint_transport(handles_->endpoint);
}

void Group::write_flight(const std::string& path) const {
  check(pleach_endpoint_write_flight(handles_->endpoint, path.c_str()));
}

void Group::note_done() {
  if (--in_flight_ == 0 && is_left_) {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
}

void Group::abort(const std::string& reason) {
  pleach_communicator_abort(handles_->communicator, reason.c_str());
}

bool Group::leave(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    if (is_left_.exchange(true)) {
      return true;
    }
    // Nobody has to come for these but those who are in them too.
    changed_.wait_for(lock, patience, [&] { return in_flight_ == 0; });
  }
  if (in_flight_ > 0) {
    abort("it was shut down with operations in flight");
  }
  std::thread(&Group::close, handles_).detach();
  std::unique_lock lock(handles_->mutex);
  return handles_->closed.wait_for(lock, patience, [&] { return handles_->is_closed; });
}

void Group::close(const std::shared_ptr<Handles>& handles) {
  pleach_communicator_close(handles->communicator);  // whatever comes of it, it is left
  const std::scoped_lock lock(handles->mutex);
  handles->is_closed = true;
  handles->closed.notify_all();
}

}  // namespace pleach_torch
