// SilentTransport: takes everything and says nothing, for tests that replace a part of it.
#pragma once

#include <span>
#include <vector>

#include "pleach/runtime/transport.h"

namespace pleach::support {

class SilentTransport : public Transport {
 public:
  void set_sink(Sink& /*sink*/) override {}
  void abandon(uint64_t /*channel*/) override {}
  Status open(const ChannelOptions& /*channel*/) override { return ok(); }
  void close(uint64_t /*channel*/) override {}
  std::string address() const override { return {}; }
  Status introduce(Rank /*peer*/, std::string_view /*address*/) override { return ok(); }
  Status connect(Rank /*peer*/) override { return ok(); }
  Status tell_begun(Rank /*peer*/, uint64_t /*channel*/, uint64_t /*operation*/,
                    uint64_t /*fingerprint*/) override {
    return ok();
  }
  Result<bool> send(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                    uint64_t /*fingerprint*/,
                    std::span<const std::span<const std::byte>> /*pieces*/) override {
    return true;
  }
  Status release(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                 int32_t /*place*/) override {
    return ok();
  }
  bool holds_back() const override { return false; }
  Status flush() override { return ok(); }
  bool has_events() const override { return false; }
  void interrupt() override {}
  Status wait(TimePoint /*deadline*/, bool /*is_eager*/) override { return ok(); }
  Status progress(std::vector<TransportEvent>& /*events*/) override { return ok(); }
};

}  // namespace pleach::support
