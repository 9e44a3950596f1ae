// Group: this rank's end of a process group, an endpoint and its communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carrier.h"
#include "lane.h"
#include "pleach/api/pleach.h"

namespace pleach_torch {

struct JoinOptions {
  std::string name;  // of the group; ranks of others do not hear it
  int32_t rank = 0;
  CarrierKey carrier;
  CarrierPlace place;          // where no carrier is shared
  std::string shared;          // the name of the carrier that all ranks share; "": a new one
  std::string book;            // "": PLEACH_BOOK's, or what rank 0 plans
  int32_t landing_places = 0;  // 0: the default
  int64_t place_bytes = 0;
  int64_t chunk_bytes = 0;  // of a device's tensors in host memory. 0: the default
};

// One that fails, or is aborted, ends no other. Thread safe.
class Group {
 public:
  // Blocks until all ranks have come. Throws what went wrong.
  //   held  carriers of this process that may be shared
  static std::shared_ptr<Group> join(const JoinOptions& options,
                                     const std::vector<std::shared_ptr<Carrier>>& held);
  // Leaves, if nobody has.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Throws where the group has been left.
  std::shared_ptr<pleach_communicator> communicator() const;
  // The same for what has been called before.
  std::shared_ptr<pleach_communicator> handle() const;
  const std::string& name() const { return options_.name; }
  int32_t rank() const { return options_.rank; }
  int32_t rank_count() const { return static_cast<int32_t>(options_.carrier.ranks.size()); }
  const JoinOptions& options() const { return options_; }
  const std::string& transport() const { return transport_; }

  // Where collectives, or messages, wait that do not start when they are called.
  const std::shared_ptr<Lane>& lane(bool is_message) const;
  int64_t chunk_bytes() const;

  // Operations that are not done.
  void note_begun();
  void note_done();

  // Ends what is in flight, on every rank.
  void abort(const std::string& reason);
  // Whether it is of no more use: it was aborted here, or an operation has told.
  bool has_failed() const;
  void note_failed();
  // Leaves in order, in the background: when what is in flight is done and the others leave too,
  // who may be long in coming. What is in flight for longer than some seconds is aborted.
  void leave();
  // Leaves all groups, as the interpreter ends: what is in flight gets a moment to end, and the
  // others hear of it. No callback runs after that. Calls but the first do nothing.
  static void end_process();

 private:
  explicit Group(JoinOptions options) : options_(std::move(options)) {}

  struct Handles;
  static void close(const std::shared_ptr<Handles>& handles);

  const JoinOptions options_;
  std::string transport_;
  std::shared_ptr<Handles> handles_;
  std::atomic<bool> is_left_ = false;
};

}  // namespace pleach_torch
