// Messages: from one rank of a communicator to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/endpoint.h"
#include "pleach/runtime/message_state.h"
#include "pleach/runtime/operation.h"
#include "pleach/runtime/transport.h"

namespace pleach {

struct MessageOptions {
  // How long an operation waits for the other side to take its part in it; it then fails, and the
  // job with it, as in all failures. Duration::max(): as long as it takes. Empty: the endpoint's.
  // Once both sides have, the endpoint's deadline ends one in which nothing happens.
  std::optional<Duration> deadline = std::nullopt;
};

// Messages of one source, target and tag are received in the order in which they were sent. A
// receive takes the first that has arrived of those it may take, from whichever source; a message
// goes to the receive that was called first. Messages of other tags, of other ranks, and
// collectives never hold one up: they have channels and landing places apart.
//
// A send is done when its memory may be overwritten. One that fits a landing place may be done
// before it is received, if the target has places left for what nobody has asked for; any send may
// wait for its receive, so ranks that send to each other start before they wait. The larger is
// received where it belongs. A receive is done when the message is there; it may be shorter than
// the buffer. What nobody has received is gone when the communicator is closed.
//
// Ranks are the communicator's; a rank may send to itself. Thread safe; the order of calls of
// several threads is theirs to agree on. After the first of their kind calls allocate nothing.
//   errors  kInvalidArgument: no such rank, a negative tag, no memory, a closed communicator:
//           nothing has happened. A message larger than its receive fails the job, as a lost peer
//           does: kInvalidArgument, kPeerLost, with rank, peer, tag and both values.
class Messages {
 public:
  // Which communicator's they are.
  struct Setup {
    std::shared_ptr<Wiring> wiring;
    Duration deadline = {};
    uint64_t channel = 0;
    Rank rank;
    std::vector<Rank> job_ranks;  // by rank
    std::function<Status()> check_alive;
  };
  explicit Messages(Setup setup) : setup_(std::move(setup)) {}
  uint64_t channel() const { return setup_.channel; }

  // Begin, and return at once. The memory is the operation's until it is done.
  Result<Operation> send(Rank target, int32_t tag, std::span<const std::byte> message,
                         const MessageOptions& options = {});
  Result<Operation> receive(Rank source, int32_t tag, std::span<std::byte> buffer,
                            const MessageOptions& options = {});
  Result<Operation> receive_any(int32_t tag, std::span<std::byte> buffer,
                                const MessageOptions& options = {});

  // The same, and wait. They wake no other thread.
  Status blocking_send(Rank target, int32_t tag, std::span<const std::byte> message,
                       const MessageOptions& options = {});
  Result<Received> blocking_receive(Rank source, int32_t tag, std::span<std::byte> buffer,
                                    const MessageOptions& options = {});
  Result<Received> blocking_receive_any(int32_t tag, std::span<std::byte> buffer,
                                        const MessageOptions& options = {});

 private:
  // In the communicator, yet.
  struct Call {
    bool is_send = false;
    std::optional<Rank> peer;  // none: any
    int32_t tag = 0;
    std::span<std::byte> memory;
  };
  Status check(const Call& call) const;
  Result<std::shared_ptr<MessageState>> plan(const Call& call, const MessageOptions& options);
  Result<Operation> start(const Call& call, const MessageOptions& options);
  Result<Received> run(const Call& call, const MessageOptions& options);
  std::shared_ptr<MessageState> take();

  const Setup setup_;
  std::mutex mutex_;
  // Each is used again when nobody holds it. Guarded by the mutex.
  std::vector<std::shared_ptr<MessageState>> states_;
  std::size_t next_ = 0;  // to be looked at
};

}  // namespace pleach
