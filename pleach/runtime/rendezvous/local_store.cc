#include "pleach/runtime/rendezvous/local_store.h"

#include <fmt/format.h>

#include <chrono>

#include "pleach/base/text.h"

namespace pleach {

Status LocalStore::set(const std::string& key, std::string value) {
  const std::scoped_lock lock(mutex_);
  static_cast<void>(content_.set(key, std::move(value)));
  changed_.notify_all();
  return ok();
}

Result<std::string> LocalStore::get(const std::string& key, Duration deadline) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + deadline;
  const std::shared_ptr<const Epoch> epoch = epoch_;
  while (true) {
    if (const std::string* found = content_.find(key)) {
      return *found;
    }
    PLEACH_TRY(epoch->check());
    if (changed_.wait_until(lock, until) == std::cv_status::timeout &&
        content_.find(key) == nullptr && !epoch->failure()) {
      return Error{ErrorCode::kTimeout, fmt::format("nobody has set {}", pleach::quoted(key))};
    }
  }
}

Result<int64_t> LocalStore::increment(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return *content_.increment(key);
}

Status LocalStore::erase(const std::string& prefix) {
  const std::scoped_lock lock(mutex_);
  content_.erase(prefix);
  return ok();
}

std::shared_ptr<const Epoch> LocalStore::epoch() const {
  const std::scoped_lock lock(mutex_);
  return epoch_;
}

void LocalStore::fail(const Epoch& epoch, const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  if (membership_.fail(epoch.number(), failure)) {
    epoch_->fail(failure);
    changed_.notify_all();
  }
}

Status LocalStore::recover(Rank self, Duration deadline) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + deadline;
  const int64_t epoch = membership_.epoch();
  const int64_t vain = vain_recoveries_;
  if (!membership_.ask(self, epoch)) {
    return invalid(
        fmt::format("epoch {} has not failed, or rank {} has left it", epoch, self.value));
  }
  go_on();
  while (membership_.epoch() == epoch && vain_recoveries_ == vain) {
    if (changed_.wait_until(lock, until) == std::cv_status::timeout &&
        membership_.epoch() == epoch && vain_recoveries_ == vain) {
      missing_ = did_not_come(membership_.missing());
      membership_.give_up();
      ++vain_recoveries_;
      changed_.notify_all();
    }
  }
  return membership_.epoch() == epoch ? Status(Error{ErrorCode::kTimeout, missing_}) : ok();
}

// Begins the next epoch, if all want it. With mutex_ held.
void LocalStore::go_on() {
  if (membership_.advance()) {
    epoch_ = std::make_shared<Epoch>(membership_.epoch(), membership_.members());
    changed_.notify_all();
  }
}

Status LocalStore::attach(Rank self) {
  const std::scoped_lock lock(mutex_);
  if (!membership_.has(self) && !membership_.join(self)) {
    return invalid(fmt::format("rank {} comes too late: the job goes on without it", self.value));
  }
  ++endpoints_[self];
  return ok();
}

void LocalStore::detach(Rank self) {
  const std::scoped_lock lock(mutex_);
  if (--endpoints_[self] == 0) {
    membership_.leave(self);
    go_on();
  }
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

std::shared_ptr<Store> make_local_store(JobSecret secret) {
  return std::make_shared<LocalStore>(std::move(secret));
}

}  // namespace pleach
