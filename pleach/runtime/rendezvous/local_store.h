// LocalStore: a store for the threads of one process.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pleach/runtime/rendezvous/membership.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/rendezvous/store_content.h"

namespace pleach {

class LocalStore final : public Store {
 public:
  explicit LocalStore(JobSecret secret) : given_{.secret = std::move(secret)} {}
  Status set(const std::string& key, std::string value) override;
  Result<std::string> get(const std::string& key, Duration deadline) override;
  Result<int64_t> increment(const std::string& key) override;
  Status erase(const std::string& prefix) override;
  std::shared_ptr<const Epoch> epoch() const override;
  using Store::fail;
  void fail(const Epoch& epoch, const Failure& failure) override;
  Status recover(Rank self, Duration deadline) override;
  Status attach(Rank self) override;
  void detach(Rank self) override;
  std::vector<std::string> local_addresses() const override { return {"127.0.0.1"}; }
  const Clock& clock() const override { return given_.clock; }
  const JobSecret& secret() const override { return given_.secret; }

  // The object of that name, made by the first who asks: how threads meet without globals.
  std::shared_ptr<void> shared(const std::string& name,
                               const std::function<std::shared_ptr<void>()>& make);

 private:
  void go_on();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StoreContent content_;
  std::map<std::string, std::shared_ptr<void>> shared_;
  struct Given {
    SteadyClock clock = {};
    JobSecret secret;
  };
  const Given given_;
  Membership membership_;
  std::map<Rank, int32_t> endpoints_;  // of each rank
  std::shared_ptr<Epoch> epoch_ = std::make_shared<Epoch>(0);
  int64_t vain_recoveries_ = 0;  // that somebody did not come to
  std::string missing_;          // to the last of them
};

}  // namespace pleach
