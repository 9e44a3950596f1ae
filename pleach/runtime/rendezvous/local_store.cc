#include "pleach/runtime/rendezvous/local_store.h"

#include <fmt/format.h>

#include <chrono>

#include "pleach/base/text.h"

namespace pleach {

LocalStore::LocalStore() : failed_(make_event()) {}

Status LocalStore::set(const std::string& key, std::string value) {
  const std::scoped_lock lock(mutex_);
  content_.set(key, std::move(value));
  changed_.notify_all();
  return ok();
}

Result<std::string> LocalStore::get(const std::string& key, Duration deadline) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (true) {
    if (const std::string* found = content_.find(key)) {
      return *found;
    }
    if (failure_) {
      return Error{ErrorCode::kPeerLost, failure_->message};
    }
    if (changed_.wait_until(lock, until) == std::cv_status::timeout &&
        content_.find(key) == nullptr && !failure_) {
      return Error{ErrorCode::kTimeout, fmt::format("nobody has set {}", quoted(key))};
    }
  }
}

Result<int64_t> LocalStore::increment(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return content_.increment(key);
}

Status LocalStore::erase(const std::string& prefix) {
  const std::scoped_lock lock(mutex_);
  content_.erase(prefix);
  return ok();
}

void LocalStore::fail(const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) {
    failure_ = failure;
    has_failed_ = true;
    signal_event(failed_.get());
    changed_.notify_all();
  }
}

std::optional<Failure> LocalStore::failure() const {
  if (!has_failed_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::shared_ptr<void> LocalStore::shared(const std::string& name,
                                         const std::function<std::shared_ptr<void>()>& make) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<void>& object = shared_[name];
  if (object == nullptr) {
    object = make();
  }
  return object;
}

std::shared_ptr<Store> make_local_store() {
  return std::make_shared<LocalStore>();
}

}  // namespace pleach
