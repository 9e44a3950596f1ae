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

// What the links of one technology have in common.
struct Technology {
  int64_t latency_ps = 0;
  int64_t overhead_ps = 0;
  Framing framing;
};

// 0.6 and 1.9 us. A 16-byte flit before at most 16 of data: Foley and Danskin, IEEE Micro 37(2),
// 2017.
constexpr Technology kNvlink = {300 * kNanosecond, 1'300 * kNanosecond, {16, 256}};
// 2.7 and 4.0 us. LRH 8, BTH 12, ICRC 4, VCRC 2: InfiniBand Architecture Specification, volume 1,
// ch. 5.
constexpr Technology kInfiniband = {1'350 * kNanosecond, 1'300 * kNanosecond, {26, 4096}};
// 15 us a hop, two links and an overhead: what the throughputs on 10 Gb/s that are published beside
// Zhang et al., DeAR, ICDCS 2023, come to. Preamble 8, Ethernet 18, gap 12 (IEEE 802.3); IPv4 20;
// TCP 32 with timestamps (RFC 7323).
constexpr Technology kTcp = {5'000 * kNanosecond, 5'000 * kNanosecond, {90, 1448}};
// As InfiniBand. The same Ethernet; IPv4 20, UDP 8, BTH 12, ICRC 4: InfiniBand specification, annex
// A17.
constexpr Technology kRoce = {kInfiniband.latency_ps, kInfiniband.overhead_ps, {82, 4096}};
// 1.0 and 2.5 us. Framing and sequence 4, header 16, LCRC 4: PCI Express Base Specification 4.0,
// sec. 2.2, 4.2.2.
constexpr Technology kPcie = {500 * kNanosecond, 1'500 * kNanosecond, {24, 256}};
// What a message costs its sender is not published.
constexpr Technology kOnWafer = {20 * kNanosecond, 0, {6, 4096}};

LinkPreset preset_of(const Technology& technology, LinkPreset words) {
  words.latency_ps = technology.latency_ps;
  words.overhead_ps = technology.overhead_ps;
  words.framing = technology.framing;
  return words;
}

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

extern const LinkPreset kNvlink3 =
    preset_of(kNvlink, {.name = "nvlink3",
                        .summary = "a GPU's 12 links of NVLink 3 together (A100)",
                        .source = "NVIDIA A100 whitepaper, 2020; NCCL 2.19, tuning.cc",
                        .bandwidth_bytes_per_s = 300 * kGigabyte});

extern const LinkPreset kNvlink4 =
    preset_of(kNvlink, {.name = "nvlink4",
                        .summary = "a GPU's 18 links of NVLink 4 together (H100)",
                        .source = "NVIDIA H100 whitepaper, 2022; NCCL 2.19, tuning.cc",
                        .bandwidth_bytes_per_s = 450 * kGigabyte});

extern const LinkPreset kNvlink5 =
    preset_of(kNvlink, {.name = "nvlink5",
                        .summary = "a GPU's 18 links of NVLink 5 together (B200)",
                        .source = "NVIDIA Blackwell architecture brief, 2024; NCCL 2.19, tuning.cc",
                        .bandwidth_bytes_per_s = 900 * kGigabyte});

extern const LinkPreset kInfinibandHdr =
    preset_of(kInfiniband, {.name = "ib_hdr",
                            .summary = "InfiniBand HDR, four lanes: 200 Gb/s",
                            .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
                            .bandwidth_bytes_per_s = 25 * kGigabyte});

extern const LinkPreset kInfinibandNdr =
    preset_of(kInfiniband, {.name = "ib_ndr",
                            .summary = "InfiniBand NDR, four lanes: 400 Gb/s",
                            .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
                            .bandwidth_bytes_per_s = 50 * kGigabyte});

extern const LinkPreset kInfinibandXdr =
    preset_of(kInfiniband, {.name = "ib_xdr",
                            .summary = "InfiniBand XDR, four lanes: 800 Gb/s",
                            .source = "InfiniBand specification, volume 2; NCCL 2.19, tuning.cc",
                            .bandwidth_bytes_per_s = 100 * kGigabyte});

extern const LinkPreset kEthernet10 =
    preset_of(kTcp, {.name = "eth_10",
                     .summary = "10 Gb/s Ethernet with TCP, frames of 1500 bytes",
                     .source = "IEEE 802.3; the 10 Gb/s testbed of DeAR, ICDCS 2023, for the times",
                     .bandwidth_bytes_per_s = 1'250'000'000});

extern const LinkPreset kEthernet25 =
    preset_of(kTcp, {.name = "eth_25",
                     .summary = "25 Gb/s Ethernet with TCP, frames of 1500 bytes",
                     .source = "IEEE 802.3; the 10 Gb/s testbed of DeAR, ICDCS 2023, for the times",
                     .bandwidth_bytes_per_s = 3'125'000'000});

extern const LinkPreset kEthernet100 = preset_of(
    kRoce, {.name = "eth_100",
            .summary = "100 Gb/s Ethernet with RoCE v2, packets of 4 KiB",
            .source = "IEEE 802.3; InfiniBand specification, annex A17; NCCL 2.19, tuning.cc",
            .bandwidth_bytes_per_s = 12'500'000'000});

extern const LinkPreset kEthernet400 = preset_of(
    kRoce, {.name = "eth_400",
            .summary = "400 Gb/s Ethernet with RoCE v2, packets of 4 KiB",
            .source = "IEEE 802.3; InfiniBand specification, annex A17; NCCL 2.19, tuning.cc",
            .bandwidth_bytes_per_s = 50 * kGigabyte});

// 16 lanes of 16 and 32 GT/s, 128 of 130 bits.
extern const LinkPreset kPcie4 =
    preset_of(kPcie, {.name = "pcie4",
                      .summary = "PCI Express 4.0, 16 lanes, payloads of 256 bytes",
                      .source = "PCI Express Base Specification 4.0; NCCL 2.19, tuning.cc",
                      .bandwidth_bytes_per_s = 31'507'692'308});

extern const LinkPreset kPcie5 =
    preset_of(kPcie, {.name = "pcie5",
                      .summary = "PCI Express 5.0, 16 lanes, payloads of 256 bytes",
                      .source = "PCI Express Base Specification 5.0; NCCL 2.19, tuning.cc",
                      .bandwidth_bytes_per_s = 63'015'384'615});

extern const LinkPreset kWafer =
    preset_of(kOnWafer, {.name = "wafer",
                         .summary = "a link between neighbours on a wafer-scale mesh",
                         .source = "FRED, ISCA 2025, tables 3 and 5",
                         .bandwidth_bytes_per_s = 750 * kGigabyte});

}  // namespace pleach
