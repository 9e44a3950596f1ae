// Latencies and overheads are those that NCCL plans with (NCCL 2.19, src/graph/tuning.cc, hardware
// latencies of a ring's hop over NVLink, PCI and network, in protocols LL and LL128): a word that
// carries its flag takes the latency alone, so a link has half of LL's hop, which goes through a
// switch; what LL128 takes longer is the sender's overhead.
#include "pleach/topology/link_preset.h"

#include <fmt/format.h>

#include <cmath>

#include "pleach/base/units.h"

namespace pleach {
namespace {

constexpr int64_t kGigabyte = 1'000'000'000;
constexpr int64_t kNanosecond = 1'000;

// 0.6 and 1.9 us; 1.0 and 2.5 us; 2.7 and 4.0 us.
constexpr int64_t kNvlinkLatencyPs = 300 * kNanosecond, kNvlinkOverheadPs = 1'300 * kNanosecond;
constexpr int64_t kPcieLatencyPs = 500 * kNanosecond, kPcieOverheadPs = 1'500 * kNanosecond;
constexpr int64_t kRdmaLatencyPs = 1'350 * kNanosecond, kRdmaOverheadPs = 1'300 * kNanosecond;
// 15 us a hop, two links and an overhead: what the throughputs on 10 Gb/s that are published beside
// Zhang et al., DeAR, ICDCS 2023, come to.
constexpr int64_t kTcpLatencyPs = 5'000 * kNanosecond, kTcpOverheadPs = 5'000 * kNanosecond;

// A 16-byte flit before at most 16 of data: Foley and Danskin, IEEE Micro 37(2), 2017.
constexpr Framing kNvlinkFraming = {.header_bytes = 16, .packet_bytes = 256};
// LRH 8, BTH 12, ICRC 4, VCRC 2: InfiniBand Architecture Specification, volume 1, ch. 5.
constexpr Framing kInfinibandFraming = {.header_bytes = 26, .packet_bytes = 4096};
// Preamble 8, Ethernet 18, gap 12 (IEEE 802.3); IPv4 20; TCP 32 with timestamps (RFC 7323).
constexpr Framing kTcpFraming = {.header_bytes = 90, .packet_bytes = 1448};
// The same Ethernet; IPv4 20, UDP 8, BTH 12, ICRC 4: InfiniBand specification, annex A17.
constexpr Framing kRoceFraming = {.header_bytes = 82, .packet_bytes = 4096};
// Framing and sequence 4, header 16, LCRC 4: PCI Express Base Specification 4.0, sec. 2.2, 4.2.2.
constexpr Framing kPcieFraming = {.header_bytes = 24, .packet_bytes = 256};
constexpr Framing kWaferFraming = {.header_bytes = 6, .packet_bytes = 4096};

}  // namespace

std::string LinkPreset::details() const {
  return fmt::format("{}, latency {}, overhead {}, header {} B on {} B",
                     format_bandwidth(static_cast<double>(bandwidth_bytes_per_s)),
                     format_time(latency_ps), format_time(overhead_ps), framing.header_bytes,
                     framing.packet_bytes);
}

int64_t bandwidth_under(const LinkPreset& preset, const Framing& framing) {
  const auto wire_bytes = [](const Framing& of) {
    return static_cast<double>(of.packet_bytes + of.header_bytes) /
           static_cast<double>(of.packet_bytes);
  };
  return std::llround(static_cast<double>(preset.bandwidth_bytes_per_s) * wire_bytes(framing) /
                      wire_bytes(preset.framing));
}

extern const LinkPreset kNvlink3 = {
    .name = "nvlink3",
    .summary = "a GPU's 12 links of NVLink 3 together (A100)",
    .source = "NVIDIA A100 whitepaper, 2020; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 300 * kGigabyte,
    .latency_ps = kNvlinkLatencyPs,
    .overhead_ps = kNvlinkOverheadPs,
    .framing = kNvlinkFraming,
};

extern const LinkPreset kNvlink4 = {
    .name = "nvlink4",
    .summary = "a GPU's 18 links of NVLink 4 together (H100)",
    .source = "NVIDIA H100 whitepaper, 2022; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 450 * kGigabyte,
    .latency_ps = kNvlinkLatencyPs,
    .overhead_ps = kNvlinkOverheadPs,
    .framing = kNvlinkFraming,
};

extern const LinkPreset kNvlink5 = {
    .name = "nvlink5",
    .summary = "a GPU's 18 links of NVLink 5 together (B200)",
    .source = "NVIDIA Blackwell architecture brief, 2024; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 900 * kGigabyte,
    .latency_ps = kNvlinkLatencyPs,
    .overhead_ps = kNvlinkOverheadPs,
    .framing = kNvlinkFraming,
};

extern const LinkPreset kInfinibandHdr = {
    .name = "ib_hdr",
    .summary = "InfiniBand HDR, four lanes: 200 Gb/s",
    .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 25 * kGigabyte,
    .latency_ps = kRdmaLatencyPs,
    .overhead_ps = kRdmaOverheadPs,
    .framing = kInfinibandFraming,
};

extern const LinkPreset kInfinibandNdr = {
    .name = "ib_ndr",
    .summary = "InfiniBand NDR, four lanes: 400 Gb/s",
    .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 50 * kGigabyte,
    .latency_ps = kRdmaLatencyPs,
    .overhead_ps = kRdmaOverheadPs,
    .framing = kInfinibandFraming,
};

extern const LinkPreset kInfinibandXdr = {
    .name = "ib_xdr",
    .summary = "InfiniBand XDR, four lanes: 800 Gb/s",
    .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 100 * kGigabyte,
    .latency_ps = kRdmaLatencyPs,
    .overhead_ps = kRdmaOverheadPs,
    .framing = kInfinibandFraming,
};

extern const LinkPreset kEthernet10 = {
    .name = "eth_10",
    .summary = "10 Gb/s Ethernet with TCP, frames of 1500 bytes",
    .source = "IEEE 802.3; the 10 Gb/s testbed of DeAR, ICDCS 2023, for the times",
    .bandwidth_bytes_per_s = 1'250'000'000,
    .latency_ps = kTcpLatencyPs,
    .overhead_ps = kTcpOverheadPs,
    .framing = kTcpFraming,
};

extern const LinkPreset kEthernet25 = {
    .name = "eth_25",
    .summary = "25 Gb/s Ethernet with TCP, frames of 1500 bytes",
    .source = "IEEE 802.3; the 10 Gb/s testbed of DeAR, ICDCS 2023, for the times",
    .bandwidth_bytes_per_s = 3'125'000'000,
    .latency_ps = kTcpLatencyPs,
    .overhead_ps = kTcpOverheadPs,
    .framing = kTcpFraming,
};

extern const LinkPreset kEthernet100 = {
    .name = "eth_100",
    .summary = "100 Gb/s Ethernet with RoCE v2, packets of 4 KiB",
    .source = "IEEE 802.3; InfiniBand specification, annex A17; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 12'500'000'000,
    .latency_ps = kRdmaLatencyPs,
    .overhead_ps = kRdmaOverheadPs,
    .framing = kRoceFraming,
};

extern const LinkPreset kEthernet400 = {
    .name = "eth_400",
    .summary = "400 Gb/s Ethernet with RoCE v2, packets of 4 KiB",
    .source = "IEEE 802.3; InfiniBand specification, annex A17; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 50 * kGigabyte,
    .latency_ps = kRdmaLatencyPs,
    .overhead_ps = kRdmaOverheadPs,
    .framing = kRoceFraming,
};

// 16 lanes of 16 and 32 GT/s, 128 of 130 bits.
extern const LinkPreset kPcie4 = {
    .name = "pcie4",
    .summary = "PCI Express 4.0, 16 lanes, payloads of 256 bytes",
    .source = "PCI Express Base Specification 4.0; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 31'507'692'308,
    .latency_ps = kPcieLatencyPs,
    .overhead_ps = kPcieOverheadPs,
    .framing = kPcieFraming,
};

extern const LinkPreset kPcie5 = {
    .name = "pcie5",
    .summary = "PCI Express 5.0, 16 lanes, payloads of 256 bytes",
    .source = "PCI Express Base Specification 5.0; NCCL 2.19, tuning.cc",
    .bandwidth_bytes_per_s = 63'015'384'615,
    .latency_ps = kPcieLatencyPs,
    .overhead_ps = kPcieOverheadPs,
    .framing = kPcieFraming,
};

// What a message costs its sender is not published.
extern const LinkPreset kWafer = {
    .name = "wafer",
    .summary = "a link between neighbours on a wafer-scale mesh",
    .source = "FRED, ISCA 2025, tables 3 and 5",
    .bandwidth_bytes_per_s = 750 * kGigabyte,
    .latency_ps = 20 * kNanosecond,
    .overhead_ps = 0,
    .framing = kWaferFraming,
};

}  // namespace pleach
