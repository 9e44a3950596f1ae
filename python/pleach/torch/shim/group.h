// Group: this rank's end of a process group, an endpoint and its communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "pleach/api/pleach.h"

namespace pleach_torch {

struct JoinOptions {
  std::string name;  // of the group; ranks of others do not hear it
  int32_t rank = 0;
  int32_t rank_count = 1;
  std::string store_host;
  int32_t store_port = 0;
  int32_t listen_descriptor = 0;  // rank 0's
  int64_t timeout_ms = 0;         // of every wait
  std::string transport;          // "": auto
  std::string book;               // "": PLEACH_BOOK's, or what rank 0 plans
  int32_t landing_places = 0;     // 0: the default
  int64_t place_bytes = 0;
};

// Each process group has an endpoint of its own: one that fails, or is aborted, ends no other.
// Thread safe.
class Group {
 public:
  // Blocks until all ranks have come. Throws what went wrong.
  static std::shared_ptr<Group> join(const JoinOptions& options);
  // Leaves in the background, if nobody has: see leave().
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Throws where the group has been left.
  pleach_communicator* communicator() const;
  const std::string& name() const { return options_.name; }
  int32_t rank() const { return options_.rank; }
  int32_t rank_count() const { return options_.rank_count; }
  std::chrono::milliseconds timeout() const;  // of the endpoint
  std::string transport() const;
  void write_flight(const std::string& path) const;

  // Operations that are not done.
  void note_begun() { ++in_flight_; }
  void note_done();

  // Ends what is in flight, on every rank.
  void abort(const std::string& reason);
  // Leaves in order, when what is in flight is done and the others leave too. They may be long in
  // coming: after `patience` it returns, and a thread goes on waiting. False then.
  bool leave(std::chrono::milliseconds patience);

 private:
  explicit Group(JoinOptions options) : options_(std::move(options)) {}

  struct Handles;
  static void close(const std::shared_ptr<Handles>& handles);

  const JoinOptions options_;
  std::atomic<int64_t> in_flight_ = 0;
  std::shared_ptr<Handles> handles_;
  std::atomic<bool> is_left_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace pleach_torch
