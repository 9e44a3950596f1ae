// LocalStore: a store for the threads of one process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/rendezvous/store_content.h"

namespace pleach {

class LocalStore final : public Store {
 public:
  LocalStore();
  Status set(const std::string& key, std::string value) override;
  Result<std::string> get(const std::string& key, Duration deadline) override;
  Result<int64_t> increment(const std::string& key) override;
  Status erase(const std::string& prefix) override;
  void fail(const Failure& failure) override;
  std::optional<Failure> failure() const override;
  int failure_descriptor() const override { return failed_.get(); }
  std::string local_address() const override { return "127.0.0.1"; }
  const JobSecret& secret() const override { return secret_; }

  // The object of that name, made by the first who asks: how threads meet without globals.
  std::shared_ptr<void> shared(const std::string& name,
                               const std::function<std::shared_ptr<void>()>& make);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StoreContent content_;
  std::map<std::string, std::shared_ptr<void>> shared_;
  std::optional<Failure> failure_;
  std::atomic<bool> has_failed_ = false;
  Descriptor failed_;  // an eventfd
  const JobSecret secret_ = JobSecret::make();
};

}  // namespace pleach
