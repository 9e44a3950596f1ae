// Store: the rendezvous. Keys and values that all ranks of a job see, and the news of failures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/epoch.h"
#include "pleach/runtime/rendezvous/secret.h"

namespace pleach {

// Thread safe. Every wait has a deadline.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, std::string value) = 0;
  // Waits until the key exists. Errors: kTimeout naming the key; the failure of the epoch in
  // which it began, but where it waits for nothing: then what is there, whatever has failed.
  virtual Result<std::string> get(const std::string& key, Duration deadline) = 0;
  // Adds one to a counter that starts at 0 and returns the new value.
  virtual Result<int64_t> increment(const std::string& key) = 0;
  // Removes every key and counter that starts with `prefix`.
  virtual Status erase(const std::string& prefix) = 0;

  // The present epoch, as this rank knows it. Whoever belongs to it holds it.
  virtual std::shared_ptr<const Epoch> epoch() const = 0;
  // Tells every rank that an epoch has failed; later calls, and those of an epoch that is over, are
  // ignored.
  virtual void fail(const Epoch& epoch, const Failure& failure) = 0;
  // Begins the next epoch after a failure, with all ranks that are connected and call this too.
  //   errors  kTimeout naming who lives and did not come within the deadline, and kInvalidArgument:
  //           the epoch has not failed: nothing has changed; kPeerLost: this rank was lost, or the
  //           store was: it cannot go on
  virtual Status recover(Rank self, Duration deadline) = 0;
  // An endpoint of the rank begins and ends, for stores that do not see their ranks come and go.
  virtual Status attach(Rank /*self*/) { return ok(); }
  virtual void detach(Rank /*self*/) {}
  // Leaves in order, as its end does: nothing may be asked of it after that. The others hear of the
  // departure at once.
  //   patience  rank 0: how long it serves those who have not left; they may go on without it then
  virtual void leave(const Departure& /*departure*/, Duration /*patience*/) {}
  // A scope of the present epoch, the same object for the same name while one is held. Null: this
  // store has none.
  virtual std::shared_ptr<const Epoch> scope(const std::string& /*name*/) { return nullptr; }
  // Like get(), but it also ends, with kTimeout, when more than `known` ranks have left the epoch.
  virtual Result<std::string> get_until_departure(const std::string& key, Duration deadline,
                                                  std::size_t /*known*/) {
    return get(key, deadline);
  }
  // The same within a scope, whose failure ends the wait too.
  virtual Result<std::string> get_within(const std::shared_ptr<const Epoch>& /*scope*/,
                                         const std::string& key, Duration deadline,
                                         std::optional<std::size_t> /*known*/) {
    return get(key, deadline);
  }
  // The addresses under which the other ranks reach this process: the first serves for all.
  virtual std::vector<std::string> local_addresses() const = 0;
  // What the job's waits are measured with: it stands still while this process is stopped, where
  // the store can tell.
  virtual const Clock& clock() const = 0;
  // By which ranks that connect to each other know that they are of one job.
  virtual const JobSecret& secret() const = 0;

  // Of the present epoch.
  void fail(const Failure& failure) { fail(*epoch(), failure); }
  std::optional<Failure> failure() const { return epoch()->failure(); }
};

// The failure of an epoch by an error of that rank, whose message names a rank.
Failure failure_of(Error error, Rank rank);
// The same of an error of that rank alone, which others are to know as that rank's: "no memory" is
// told as "rank 2: no memory", "rank 3 did not come" as it is.
Failure named_failure(Error error, Rank rank);
// An error's code, as ranks tell it to each other.
std::string write_code(ErrorCode code);
Result<ErrorCode> read_code(std::string_view text);
// Fails the epoch with `failure` unless it has failed already; returns its failure as an error.
Error fail_epoch(Store& store, const Epoch& epoch, const Failure& failure);

// How a failure names who met it and where: "rank 2, operation 7 (all_reduce): no memory".
std::string failure_text(Rank rank, std::string_view where, std::string_view cause);
// What a rank prints of such a text: on rank 2 itself "rank 2: operation 7 (all_reduce): no
// memory", on another "rank 0: rank 2, operation 7 (all_reduce): no memory". The same of
// named_failure()'s.
std::string said_by(Rank rank, std::string_view message);

// Under this key a store says why it did not let in who claimed to be that rank, if it has not
// come.
std::string refusal_key(Rank rank);

// A view of a store for what a scope's ranks settle there: its epoch is the scope, whose failure
// ends its waits. A store without scopes is returned as it is.
std::shared_ptr<Store> make_scoped_store(std::shared_ptr<Store> whole, const std::string& name);

// A store for the threads of one process (runtime/rendezvous/local_store.h).
std::shared_ptr<Store> make_local_store(JobSecret secret = JobSecret::make());

struct TcpStoreOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // rank 0: 0 picks a free one
  Rank rank;
  int32_t rank_count = 1;
  Duration deadline = std::chrono::seconds(30);  // to connect, and for all to know of a lost rank
  // Rank 0: a socket that listens at `port`, to serve on; taken over. One that is none is left
  // alone, and another made.
  int listen_descriptor = -1;
  std::string job = {};  // ranks of different jobs do not hear each other
  // Where rank 0 publishes its port and the others look for it; empty: they know `port`.
  std::string rendezvous_file = {};
  JobSecret secret = {};
  // Which interfaces the others reach this rank by (runtime/rendezvous/interfaces.h); empty: the
  // one that reaches the store.
  std::string interface = {};
  // What started this rank: if it ends, the rank fails the job. 0: nobody looks at it.
  int starter_process = 0;
};

// A store over TCP: rank 0 serves, all ranks connect (rank 0 too), and prove to each other that
// they hold the secret (runtime/rendezvous/handshake.h). The server pings every rank; one whose
// connection closes without a goodbye, or who is silent for half the deadline, is lost for good: it
// fails the epoch, is named on all others, and told that it is out if it lives. When the server is
// lost, rank 0 is, and nobody can go on. Destroying the store says goodbye; rank 0 then serves
// until all have, at most for the deadline.
Result<std::unique_ptr<Store>> make_tcp_store(const TcpStoreOptions& options);

// Fails the job of a TCP store on behalf of somebody who is no rank of it, but holds its secret: a
// starter knows first of a rank that never came. Gives up at the deadline. In a job without a
// secret nothing happens: any process that reaches the store could say it.
//   where  its host, port, rank count, deadline, job and secret
void fail_from_outside(const TcpStoreOptions& where, const Failure& failure);

}  // namespace pleach
