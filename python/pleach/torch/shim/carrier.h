// Carrier: an endpoint, and the groups of the same ranks that share it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pleach/api/pleach.h"

namespace pleach_torch {

// The properties that groups have in common if they share a carrier.
struct CarrierKey {
  std::vector<uint64_t> ranks;  // of the job, in the order of the group's
  int64_t timeout_ms = 0;       // of the endpoint: within it a stopped rank is found
  std::string transport;        // as it was asked for
  bool operator==(const CarrierKey&) const = default;
};

// How an endpoint is made.
struct CarrierPlace {
  std::string name;  // of the carrier: no other has it, and all ranks know it by that
  std::string job;
  int32_t rank = 0;
  std::string store_host;
  int32_t store_port = 0;
  int32_t listen_descriptor = 0;  // rank 0's
  std::string flight_folder;      // "": none
};

// A group that fails ends no other on its carrier: its communicator fails alone. Thread safe.
class Carrier {
 public:
  // Blocks until all ranks have come. Throws what went wrong.
  static std::shared_ptr<Carrier> open(const CarrierKey& key, const CarrierPlace& place);
  // Those of this process that another group may share, the one with the fewest groups first.
  static std::vector<std::shared_ptr<Carrier>> find(const CarrierKey& key);
  // Leaves all that there are, as the process ends; first ranks serve the others until then.
  static void leave_all(std::chrono::steady_clock::time_point deadline);
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  const std::string& name() const { return place_.name; }
  pleach_endpoint* endpoint() const { return endpoint_; }
  // A group begins and ends on it. One that failed leaves it to those that are on it.
  void note_begun();
  void note_ended();
  void note_failed();

 private:
  Carrier(CarrierKey key, CarrierPlace place);
  static std::vector<std::shared_ptr<Carrier>> all();

  const CarrierKey key_;
  const CarrierPlace place_;
  pleach_endpoint* endpoint_ = nullptr;
  int groups_ = 0;           // guarded by the mutex of all, as what follows
  bool has_failed_ = false;  // a group
};

}  // namespace pleach_torch
