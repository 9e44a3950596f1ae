// The binary format: FlatBuffers after schedule.fbs. Small and fast; docs/formats.md.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/violations.h"
#include "pleach_generated/schedule_generated.h"

namespace pleach {
namespace {

constexpr int32_t kVersion = 2;  // passes of switches; what has none is written as 1
constexpr std::size_t kIdentifierOffset = 4;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kMaxBytes = (std::size_t{1} << 31) - 1;  // of FlatBuffers
constexpr uint32_t kMaxDepth = 8;
constexpr uint32_t kMaxTables = 8;

bool recognises(std::string_view content) {
  return content.size() >= kIdentifierOffset + flatbuffers::kFileIdentifierLength &&
         content.substr(kIdentifierOffset, flatbuffers::kFileIdentifierLength) ==
             file::ScheduleIdentifier();
}

std::size_t estimated_bytes(const Schedule& schedule) {
  const Provenance& provenance = schedule.provenance;
  std::size_t links = 0;
  for (int32_t route = 0; route < schedule.routes.size(); ++route) {
    links += schedule.routes[route].size() + 1;
  }
  const std::size_t weights = schedule.chunks.is_uniform() ? 0 : at(schedule.chunks.count());
  return schedule.transfers.size() * (sizeof(file::Transfer) + sizeof(uint32_t)) +
         links * sizeof(int32_t) + weights * sizeof(int64_t) +
         schedule.participants.size() * sizeof(int32_t) +
         schedule.phase_steps.size() * sizeof(int32_t) + provenance.algorithm.size() +
         provenance.options.size() + provenance.certificate.witness.size() + 1024;
}

flatbuffers::Offset<file::Provenance> pack(flatbuffers::FlatBufferBuilder& builder,
                                           const Provenance& provenance) {
  const Certificate& certificate = provenance.certificate;
  const auto witness = builder.CreateString(certificate.witness);
  const auto packed = file::CreateCertificate(builder, certificate.bound_algbw_bytes_per_s,
                                              certificate.algbw_bytes_per_s, certificate.fraction,
                                              certificate.exact, witness, certificate.alpha_s,
                                              certificate.beta_s_per_byte);
  const auto algorithm = builder.CreateString(provenance.algorithm);
  const auto options = builder.CreateString(provenance.options);
  return file::CreateProvenance(builder, algorithm, options, provenance.topology_fingerprint,
                                packed);
}

struct PackedRoutes {
  std::vector<uint32_t> ends;
  std::vector<int32_t> links;
};

PackedRoutes pack(const RouteTable& routes) {
  PackedRoutes packed;
  for (int32_t route = 0; route < routes.size(); ++route) {
    for (const LinkId link : routes[route]) {
      packed.links.push_back(link.value);
    }
    packed.ends.push_back(static_cast<uint32_t>(packed.links.size()));
  }
  return packed;
}

// Of each transfer the two passes, in one number.
constexpr uint32_t kPassBits = 16;

std::vector<uint32_t> pack_passes(const Schedule& schedule) {
  std::vector<uint32_t> packed;
  for (const Transfer& transfer : schedule.transfers) {
    check_interruption();
    packed.push_back(uint32_t{transfer.target_pass} << kPassBits | transfer.source_pass);
  }
  return packed;
}

Result<std::string> write(const Schedule& schedule) {
  PLEACH_TRY(refuse_bad_ranges(schedule));
  const std::size_t estimate = estimated_bytes(schedule);
  if (estimate > kMaxBytes) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("a schedule of {} transfers does not fit the binary format's 2 GiB",
                             schedule.transfers.size())};
  }
  flatbuffers::FlatBufferBuilder builder(estimate);
  // Not CreateUninitializedVectorOfStructs: it aligns to the struct's size, here no power of two.
  const auto transfers = builder.CreateVectorOfStructs<file::Transfer>(
      schedule.transfers.size(), [&](std::size_t i, file::Transfer* packed) {
        const Transfer& t = schedule.transfers[i];
        *packed = file::Transfer(t.first_chunk, t.chunk_count, t.source.value, t.target.value,
                                 t.step, t.route, static_cast<int32_t>(t.op));
      });
  const bool has_passes = names_passes(schedule);
  const auto passes = has_passes ? builder.CreateVector(pack_passes(schedule)) : 0;
  const PackedRoutes routes = pack(schedule.routes);
  const auto route_links = builder.CreateVector(routes.links);
  const auto route_ends = builder.CreateVector(routes.ends);
  std::vector<int32_t> nodes;
  for (const NodeId node : schedule.participants) {
    nodes.push_back(node.value);
  }
  const auto participants = builder.CreateVector(nodes);
  const auto phase_steps = builder.CreateVector(schedule.phase_steps);
  std::vector<int64_t> weights;
  for (int32_t c = 0; !schedule.chunks.is_uniform() && c < schedule.chunks.count(); ++c) {
    weights.push_back(schedule.chunks.weight(c));
  }
  const auto chunk_weights = weights.empty() ? 0 : builder.CreateVector(weights);
  const auto symmetry = schedule.symmetry ? builder.CreateVector(schedule.symmetry->dimensions) : 0;
  const auto collective = builder.CreateString(std::string(to_text(schedule.collective)));
  const auto provenance = pack(builder, schedule.provenance);
  file::FinishScheduleBuffer(
      builder, file::CreateSchedule(builder, has_passes ? kVersion : kVersion - 1, collective,
                                    schedule.root.value, participants, schedule.chunks.count(),
                                    chunk_weights, schedule.period, phase_steps, transfers,
                                    route_ends, route_links, symmetry, provenance,
                                    static_cast<int32_t>(schedule.fold_order), passes));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

// Copies element by element: FlatBuffers' verifier does not check the alignment of elements.
template <typename T>
std::vector<T> unpack(const flatbuffers::Vector<T>* packed) {
  std::vector<T> values(packed == nullptr ? 0 : packed->size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(&values[i], packed->Data() + i * sizeof(T), sizeof(T));
    values[i] = flatbuffers::EndianScalar(values[i]);
  }
  return values;
}

std::string unpack_text(const flatbuffers::String* packed) {
  return packed == nullptr ? "" : packed->str();
}

Provenance unpack_provenance(const file::Provenance* packed) {
  Provenance provenance;
  if (packed == nullptr) {
    return provenance;
  }
  provenance.algorithm = unpack_text(packed->algorithm());
  provenance.options = unpack_text(packed->options());
  provenance.topology_fingerprint = packed->topology_fingerprint();
  if (const file::Certificate* certificate = packed->certificate()) {
    provenance.certificate = {certificate->bound_algbw_bytes_per_s(),
                              certificate->algbw_bytes_per_s(),
                              certificate->fraction(),
                              certificate->exact(),
                              unpack_text(certificate->witness()),
                              certificate->alpha_s(),
                              certificate->beta_s_per_byte()};
  }
  return provenance;
}

Result<RouteTable> unpack_routes(const file::Schedule& packed, const std::string& path) {
  const std::vector<uint32_t> ends = unpack(packed.route_ends());
  const std::vector<int32_t> values = unpack(packed.route_links());
  std::vector<LinkId> links;
  links.reserve(values.size());
  for (const int32_t value : values) {
    links.push_back(LinkId{value});
  }
  RouteTable routes;
  std::size_t begin = 0;
  for (std::size_t route = 0; route < ends.size(); ++route) {
    if (ends[route] < begin || ends[route] > links.size()) {
      return invalid(path, fmt::format("routes[{}]: links [{}, {}) of {}", route, begin,
                                       ends[route], links.size()));
    }
    routes.add(std::span(links).subspan(begin, ends[route] - begin));
    begin = ends[route];
  }
  return routes;
}

Result<ChunkGrid> unpack_chunks(const file::Schedule& packed, const std::string& path) {
  std::vector<int64_t> weights = unpack(packed.chunk_weights());
  const int32_t count = packed.chunk_count();
  if (count < 1 || (!weights.empty() && at(count) != weights.size())) {
    return invalid(path, fmt::format("chunk_count: {} with {} weights", count, weights.size()));
  }
  if (weights.empty()) {
    return ChunkGrid::uniform(count);
  }
  if (!ChunkGrid::valid(weights)) {
    return invalid(path, "chunk_weights: must be positive with a sum within int64");
  }
  return ChunkGrid::weighted(std::move(weights));
}

Status unpack_passes(const file::Schedule& packed, const std::string& path,
                     std::vector<Transfer>& transfers) {
  if (packed.transfer_passes() == nullptr) {
    return ok();
  }
  const std::vector<uint32_t> passes = unpack(packed.transfer_passes());
  if (packed.version() < kVersion || passes.size() != transfers.size()) {
    return invalid(path, fmt::format("transfer_passes: {} of them for {} transfers, in version {}",
                                     passes.size(), transfers.size(), packed.version()));
  }
  for (std::size_t i = 0; i < passes.size(); ++i) {
    transfers[i].source_pass = static_cast<uint16_t>(passes[i]);
    transfers[i].target_pass = static_cast<uint16_t>(passes[i] >> kPassBits);
  }
  return ok();
}

Result<std::vector<Transfer>> unpack_transfers(const file::Schedule& packed,
                                               const std::string& path) {
  std::vector<Transfer> transfers;
  transfers.reserve(packed.transfers()->size());
  for (const file::Transfer* t : *packed.transfers()) {
    check_interruption();
    if (t->op() != 0 && t->op() != 1) {
      return invalid(path, fmt::format("transfers[{}]: op {} is neither 0 (copy) nor 1 (reduce)",
                                       transfers.size(), t->op()));
    }
    transfers.push_back({t->first_chunk(), t->chunk_count(), NodeId{t->source()},
                         NodeId{t->target()}, t->step(), t->route(),
                         t->op() == 1 ? TransferOp::kReduce : TransferOp::kCopy});
  }
  PLEACH_TRY(unpack_passes(packed, path, transfers));
  return transfers;
}

Result<Schedule> unpack_schedule(const file::Schedule& packed, const std::string& path) {
  const auto collective = parse_collective(packed.collective()->string_view());
  if (!collective) {
    return invalid(path, "collective: " + collective.error().message);
  }
  Schedule schedule;
  schedule.collective = *collective;
  schedule.root = Rank{packed.root()};
  for (const int32_t node : unpack(packed.participants())) {
    schedule.participants.push_back(NodeId{node});
  }
  PLEACH_SET(schedule.chunks, unpack_chunks(packed, path));
  schedule.period = packed.period();
  schedule.phase_steps = unpack(packed.phase_steps());
  if (packed.fold_order() != 0 && packed.fold_order() != 1) {
    return invalid(path, fmt::format("fold_order: {} is neither 0 (own first) nor 1 (by rank)",
                                     packed.fold_order()));
  }
  schedule.fold_order = packed.fold_order() == 1 ? FoldOrder::kByRank : FoldOrder::kOwnFirst;
  PLEACH_SET(schedule.transfers, unpack_transfers(packed, path));
  PLEACH_SET(schedule.routes, unpack_routes(packed, path));
  if (packed.symmetry() != nullptr) {
    schedule.symmetry = Symmetry{unpack(packed.symmetry())};
  }
  schedule.provenance = unpack_provenance(packed.provenance());
  return finish_reading(std::move(schedule), path);
}

Result<Schedule> read(std::string_view content, const std::string& path) {
  if (content.size() > kMaxBytes) {
    return invalid(path, fmt::format("{} bytes are more than the format's 2 GiB", content.size()));
  }
  // Scalars are read in place, so the content must be aligned as its writer aligned it.
  std::vector<std::max_align_t> aligned;
  if (reinterpret_cast<std::uintptr_t>(content.data()) % kAlignment != 0) {
    aligned.resize(content.size() / sizeof(std::max_align_t) + 1);
    std::memcpy(aligned.data(), content.data(), content.size());
    content = {reinterpret_cast<const char*>(aligned.data()), content.size()};
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(content.data()), content.size(),
                                 kMaxDepth, kMaxTables);
  if (!file::VerifyScheduleBuffer(verifier)) {
    return invalid(path, fmt::format("is damaged or cut short ({} bytes)", content.size()));
  }
  const file::Schedule& packed = *file::GetSchedule(content.data());
  if (packed.version() < 1 || packed.version() > kVersion) {
    return invalid(path,
                   fmt::format("binary format version {}; this program reads versions up to {}",
                               packed.version(), kVersion));
  }
  return unpack_schedule(packed, path);
}

}  // namespace

extern const ScheduleFormat kBinaryFormat = {
    .name = "binary",
    .summary = "FlatBuffers: small and fast to load",
    .extension = ".pleach",
    .recognises = &recognises,
    .write = &write,
    .read = &read,
};

}  // namespace pleach
