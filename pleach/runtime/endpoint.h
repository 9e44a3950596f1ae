// Endpoint: one process's (or thread's) end of a job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/at_exit.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/flight_file.h"
#include "pleach/runtime/process_mark.h"
#include "pleach/runtime/progress.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transport_choice.h"

namespace pleach {

struct EndpointOptions {
  Rank rank;
  int32_t rank_count = 1;
  // By name, or with options: "tcp,sockets=4". kAutoTransport: the best for all ranks, which then
  // create their endpoints together.
  std::string transport = kAutoTransport;
  std::vector<int32_t> hosts = {};  // TransportChoice's, where the choice has been made before
  std::shared_ptr<Store> store;
  std::string name = "job";                      // distinct endpoints of a rank differ in it
  Duration deadline = std::chrono::seconds(30);  // of every wait
  const Clock* clock = nullptr;                  // null: the store's
  std::optional<FlightOptions> flight = {};      // none: as the environment says
  std::optional<std::string> host_name = {};     // OwnHost's; none: PLEACH_HOST
  std::unique_ptr<Transport> transport_override = nullptr;  // tests
};

// An endpoint's communicators that are open. A process that ends when all have been closed leaves
// the job in order, whatever it has not destroyed. Thread safe.
class Openings {
 public:
  explicit Openings(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  // How many of that kind have been opened before.
  int64_t count(uint64_t kind);
  void note_opened();
  void note_closed();
  // None is open.
  void forget_all() {
    const std::scoped_lock lock(mutex_);
    open_ = 0;
  }

 private:
  const std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::map<uint64_t, int64_t> by_kind_;
  int64_t open_ = 0;
  std::unique_ptr<AtExit> leaving_;  // once one has been closed
};

// An endpoint's connections in one epoch, and what moves operations over them. Whoever is of that
// epoch keeps it, and with it the store, which cannot say goodbye then by being destroyed.
struct Wiring {
  std::shared_ptr<const Epoch> epoch;
  ProcessMark process = {};
  std::shared_ptr<Openings> openings = nullptr;  // and the store, with its clock
  std::unique_ptr<Transport> transport = nullptr;
  std::unique_ptr<Progress> progress = nullptr;
  std::unique_ptr<FlightWriter> flight = nullptr;
  Epoch::Watch watch = {};  // wakes the transport; ends first
};

// What all communicators of a rank share: its transport, its store, and what moves them. A
// communicator is a view of it: a channel of its own. Thread safe. In a child of fork() nothing may
// be asked of it; what is destroyed there stays as it is.
class Endpoint {
 public:
  // Collective where the transport is kAutoTransport. Errors: kInvalidArgument: no such rank, no
  // store, no such transport; its own; those of choose_transport().
  static Result<std::shared_ptr<Endpoint>> create(EndpointOptions options);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  Rank rank() const { return options_.rank; }
  int32_t rank_count() const { return options_.rank_count; }
  Store& store() const { return *options_.store; }
  const std::shared_ptr<Store>& shared_store() const { return options_.store; }
  Duration deadline() const { return options_.deadline; }
  // As it was asked for, or the best.
  const std::string& transport() const { return options_.transport; }
  // As TransportChoice's; empty where a transport was asked for by name, without them.
  const std::vector<int32_t>& hosts() const { return options_.hosts; }
  // Of the latest epoch that it has come to.
  std::shared_ptr<Wiring> wiring() const;
  // Where that epoch has failed: ends all that is in flight in it, and comes to the next one with
  // all other ranks that live and do the same; connections are new.
  //   errors  those of Store::recover; those of create()
  Status renew();
  // Writes the last operations of this rank, as JSON (docs/cli.md, "flight"). Errors: kIo.
  Status write_flight(const std::string& path) const;
  Openings& openings() { return *openings_; }
  // Leaves the job at once, whatever is open or in flight: no rank waits for this one any more, and
  // what it has handed to the transport is still delivered. Operations of others fail that need
  // more from it. Nothing may be asked of the endpoint then but to end.
  //   patience  rank 0: how long it serves the others, which may leave meanwhile
  void leave(Duration patience);

 private:
  explicit Endpoint(EndpointOptions options)
      : options_(std::move(options)), openings_(std::make_shared<Openings>(options_.store)) {}
  Status find_transport();
  Result<std::shared_ptr<Wiring>> wire();

  EndpointOptions options_;
  bool is_attached_ = false;
  std::mutex renewing_;  // one at a time
  mutable std::mutex mutex_;
  std::shared_ptr<Wiring> wiring_;  // guarded by it
  const std::shared_ptr<Openings> openings_;
};

}  // namespace pleach
