// Traffic: what the operations of one channel do with what happens there. Progress drives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// It never waits or reads a clock. After the first error nothing may be asked of it but to abandon
// what it does, and what the error is about. Used by one thread at a time.
class Traffic {
 public:
  virtual ~Traffic() = default;

  // As Sink's, of this channel.
  virtual std::span<std::byte> find_home(Rank peer, SegmentTag tag, uint64_t fingerprint,
                                         std::size_t bytes) const = 0;
  // Takes note of an event of this channel, or of a lost peer.
  virtual Status handle(const TransportEvent& event) = 0;
  // A peer has left. The operations after `ended` were not over there, so they cannot end here.
  virtual Status handle_departure(Rank /*peer*/, uint64_t /*ended*/) { return ok(); }
  // Does what follows; lets go of the operations that are over. To be called at expiry() too.
  virtual Status proceed(TimePoint now) = 0;
  // True if operations end here before they hear from other ranks: the caller then looks for what
  // has come, as else no rank would hear that the others run something else.
  virtual bool wants_news() const { return false; }
  // Differs between ranks that began different operations.
  virtual uint64_t history() const { return 0; }
  // When it next has something to say, unless something happens before.
  virtual TimePoint expiry() const = 0;
  // Lets go of all operations where they stand: after an error, or to give up.
  virtual void abandon() = 0;

  // What an error was about; 0: no operation, -1: this rank.
  virtual uint64_t failed_operation() const = 0;
  virtual Rank culprit() const = 0;
};

}  // namespace pleach
