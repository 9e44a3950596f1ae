// A view of a store whose epoch is a scope.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/runtime/rendezvous/store.h"

namespace pleach {
namespace {

class ScopedStore final : public Store {
 public:
  ScopedStore(std::shared_ptr<Store> whole, std::shared_ptr<const Epoch> scope)
      : whole_(std::move(whole)), scope_(std::move(scope)) {}

  Status set(const std::string& key, std::string value) override {
    PLEACH_TRY(scope_->check());
    return whole_->set(key, std::move(value));
  }
  Result<std::string> get(const std::string& key, Duration deadline) override {
    return whole_->get_within(scope_, key, deadline, std::nullopt);
  }
  Result<std::string> get_until_departure(const std::string& key, Duration deadline,
                                          std::size_t known) override {
    return whole_->get_within(scope_, key, deadline, known);
  }
  Result<int64_t> increment(const std::string& key) override {
    PLEACH_TRY(scope_->check());
    return whole_->increment(key);
  }
  Status erase(const std::string& prefix) override { return whole_->erase(prefix); }
  std::shared_ptr<const Epoch> epoch() const override { return scope_; }
  using Store::fail;
  void fail(const Epoch& epoch, const Failure& failure) override { whole_->fail(epoch, failure); }
  Status recover(Rank self, Duration deadline) override { return whole_->recover(self, deadline); }
  std::vector<std::string> local_addresses() const override { return whole_->local_addresses(); }
  const Clock& clock() const override { return whole_->clock(); }
  const JobSecret& secret() const override { return whole_->secret(); }

 private:
  const std::shared_ptr<Store> whole_;
  const std::shared_ptr<const Epoch> scope_;
};

}  // namespace

std::shared_ptr<Store> make_scoped_store(std::shared_ptr<Store> whole, const std::string& name) {
  std::shared_ptr<const Epoch> scope = whole->scope(name);
  return scope == nullptr ? whole
                          : std::make_shared<ScopedStore>(std::move(whole), std::move(scope));
}

}  // namespace pleach
