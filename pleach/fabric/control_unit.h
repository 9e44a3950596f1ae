// ControlUnit: the configurations that a switch holds, one per phase of a job, named by an index.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/fabric/configuration.h"
#include "pleach/fabric/fred_switch.h"

namespace pleach {

// How the bits of a configuration are counted.
//   kPublished  3 of every cell, none of multiplexers, whatever m: of the figures of the paper. Is
//               enough for the 8 modes of an RD and for what R and D do at m = 2
//   kExact      what tells all modes apart: ceil(log2 m²) of an R or D (each side goes one of m
//               ways; an idle side goes where nothing is), 3 of an RD, ceil(log2 m) of a
//               multiplexer
enum class BitCount : uint8_t { kPublished, kExact };
int64_t configuration_bits(const FredSize& size, BitCount count);

// A configuration as bits, as kExact counts them, in the order of the cells; and back: sides that
// were idle may come back with a way that nothing takes, so what flows do is the same.
std::vector<bool> encode_configuration(const FredSwitch& fred, const Configuration& modes);
// Errors: kInvalidArgument: not as many bits as a configuration has, or a way that no cell has.
Result<Configuration> decode_configuration(const FredSwitch& fred, const std::vector<bool>& bits);

constexpr int64_t kConfigurationMemoryBytes = 1536;  // of a switch, as published: 1.5 KB

// Index 0 means unicast, routed online, and takes no memory; phases are 1, 2, ...
class ControlUnit {
 public:
  // Borrows the switch.
  ControlUnit(const FredSwitch& fred, int64_t memory_bytes, BitCount count);

  int64_t capacity() const { return capacity_; }  // phases
  // The index of one more phase.
  //   errors  kInfeasible: the memory is full
  Result<int32_t> add(const Configuration& modes);
  // Errors: kInvalidArgument: no phase has the index (0 is no configuration).
  Result<Configuration> find(int32_t index) const;

 private:
  const FredSwitch& fred_;
  int64_t memory_bytes_;
  int64_t bits_;
  int64_t capacity_;
  std::vector<std::vector<bool>> phases_;
};

}  // namespace pleach
