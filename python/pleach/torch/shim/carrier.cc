#include "carrier.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "background.h"
#include "errors.h"
#include "signals.h"

namespace pleach_torch {
namespace {

// Each has two channels, all of which a poll looks at.
constexpr int kMostGroups = 128;

// Never destroyed: threads use it until the process ends.
struct Carriers {
  std::mutex mutex;
  std::vector<std::weak_ptr<Carrier>> all;

  static Carriers& of_process() {
    static auto* const carriers = new Carriers;
    return *carriers;
  }
};

}  // namespace

Carrier::Carrier(CarrierKey key, CarrierPlace place)
    : key_(std::move(key)), place_(std::move(place)) {}

std::shared_ptr<Carrier> Carrier::open(const CarrierKey& key, const CarrierPlace& place) {
  // An endpoint waits for others when it is destroyed. The thread that drops it last must not.
  const std::shared_ptr<Carrier> carrier(
      new Carrier(key, place), [](Carrier* last) { run_in_background([last] { delete last; }); });
  pleach_endpoint_options options = {};
  options.size = sizeof options;
  options.rank_count = static_cast<int32_t>(key.ranks.size());
  options.rank = place.rank;
  options.store_host = place.store_host.c_str();
  options.store_port = place.store_port;
  options.listen_descriptor = place.listen_descriptor;
  options.job = place.job.c_str();
  options.transport = key.transport.empty() ? nullptr : key.transport.c_str();
  options.deadline_ms = key.timeout_ms;
  options.flight_folder = place.flight_folder.empty() ? nullptr : place.flight_folder.c_str();
  const Interruptible interruptible;
  const pleach_status status = pleach_endpoint_create(&options, &carrier->endpoint_);
  interruptible.check();
  check(status);
  Carriers& carriers = Carriers::of_process();
  const std::scoped_lock lock(carriers.mutex);
  std::erase_if(carriers.all, [](const auto& one) { return one.expired(); });
  carriers.all.push_back(carrier);
  return carrier;
}

std::vector<std::shared_ptr<Carrier>> Carrier::all() {
  Carriers& carriers = Carriers::of_process();
  const std::scoped_lock lock(carriers.mutex);
  std::vector<std::shared_ptr<Carrier>> alive;
  for (const auto& one : carriers.all) {
    if (std::shared_ptr<Carrier> carrier = one.lock()) {
      alive.push_back(std::move(carrier));
    }
  }
  return alive;
}

std::vector<std::shared_ptr<Carrier>> Carrier::find(const CarrierKey& key) {
  const std::vector<std::shared_ptr<Carrier>> found = all();
  const std::scoped_lock lock(Carriers::of_process().mutex);
  std::vector<std::shared_ptr<Carrier>> suitable;
  for (const std::shared_ptr<Carrier>& one : found) {
    if (one->key_ == key && !one->has_failed_ && one->groups_ < kMostGroups) {
      suitable.push_back(one);
    }
  }
  std::stable_sort(suitable.begin(), suitable.end(), [](const auto& one, const auto& other) {
    return one->groups_ < other->groups_;
  });
  return suitable;
}

Carrier::~Carrier() {
  pleach_endpoint_destroy(endpoint_);
}

void Carrier::leave_all(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::thread> threads;
  for (const std::shared_ptr<Carrier>& carrier : all()) {
    threads.emplace_back([carrier, deadline] {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      pleach_endpoint_leave(carrier->endpoint_, std::max<int64_t>(left.count(), 0));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void Carrier::note_begun() {
  const std::scoped_lock lock(Carriers::of_process().mutex);
  ++groups_;
}

void Carrier::note_ended() {
  const std::scoped_lock lock(Carriers::of_process().mutex);
  --groups_;
}

void Carrier::note_failed() {
  const std::scoped_lock lock(Carriers::of_process().mutex);
  has_failed_ = true;
}

}  // namespace pleach_torch
