// The JSON format: for people, for other programs, and open to files written by hand;
// docs/formats.md. Written and read as a stream: schedules of millions of transfers pass through.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/violations.h"

namespace pleach {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormatName = "pleach_schedule";
constexpr int64_t kFormatVersion = 2;        // passes of switches; what has none is written as 1
constexpr std::size_t kTransferBytes = 100;  // of text, roughly

constexpr std::string_view kOwnFirst = "own_first";
constexpr std::string_view kByRank = "by_rank";

std::string_view op_text(TransferOp op) {
  return op == TransferOp::kReduce ? "reduce" : "copy";
}

// Writing.

template <typename Range, typename Project>
std::string list(const Range& range, Project project) {
  std::string text = "[";
  for (const auto& entry : range) {
    fmt::format_to(std::back_inserter(text), "{}{}", text.size() > 1 ? ", " : "", project(entry));
  }
  return text + "]";
}

std::string list(const std::vector<int32_t>& values) {
  return list(values, [](int32_t value) { return value; });
}

std::string escaped(const std::string& text) {
  return Json(text).dump();
}

// Adding 0 turns -0 into 0, which JSON's integers cannot tell apart.
double plain(double value) {
  return value + 0.0;
}

void write_chunks(std::string& text, const ChunkGrid& chunks) {
  if (chunks.is_uniform()) {
    fmt::format_to(std::back_inserter(text), "  \"chunk_count\": {},\n", chunks.count());
    return;
  }
  text += "  \"chunk_weights\": [";
  for (int32_t chunk = 0; chunk < chunks.count(); ++chunk) {
    fmt::format_to(std::back_inserter(text), "{}{}", chunk > 0 ? ", " : "", chunks.weight(chunk));
  }
  text += "],\n";
}

void write_provenance(std::string& text, const Provenance& provenance) {
  if (provenance == Provenance{}) {
    return;
  }
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "  \"provenance\": {{\n    \"algorithm\": {},\n    \"options\": {},\n"
                 "    \"topology_fingerprint\": \"0x{:016x}\"",
                 escaped(provenance.algorithm), escaped(provenance.options),
                 provenance.topology_fingerprint);
  const Certificate& certificate = provenance.certificate;
  if (certificate != Certificate{}) {
    fmt::format_to(out,
                   ",\n    \"certificate\": {{\n      \"bound_algbw_bytes_per_s\": {},\n"
                   "      \"algbw_bytes_per_s\": {},\n      \"fraction\": {},\n"
                   "      \"exact\": {},\n      \"witness\": {},\n      \"alpha_s\": {},\n"
                   "      \"beta_s_per_byte\": {}\n    }}",
                   plain(certificate.bound_algbw_bytes_per_s), plain(certificate.algbw_bytes_per_s),
                   plain(certificate.fraction), certificate.exact, escaped(certificate.witness),
                   plain(certificate.alpha_s), plain(certificate.beta_s_per_byte));
  }
  text += "\n  },\n";
}

void write_routes(std::string& text, const RouteTable& routes) {
  if (routes.size() == 0) {
    return;
  }
  text += "  \"routes\": [";
  for (int32_t route = 0; route < routes.size(); ++route) {
    text += route > 0 ? ",\n    " : "\n    ";
    text += list(routes[route], [](LinkId link) { return link.value; });
  }
  text += "\n  ],\n";
}

void write_transfers(std::string& text, const std::vector<Transfer>& transfers) {
  auto out = std::back_inserter(text);
  text += "  \"transfers\": [";
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    check_interruption();
    const Transfer& t = transfers[i];
    fmt::format_to(out, "{}\n    {{\"step\": {}, \"first_chunk\": {}", i > 0 ? "," : "", t.step,
                   t.first_chunk);
    if (t.chunk_count != 1) {
      fmt::format_to(out, ", \"chunk_count\": {}", t.chunk_count);
    }
    fmt::format_to(out, ", \"source\": {}, \"target\": {}, \"op\": \"{}\"", t.source.value,
                   t.target.value, op_text(t.op));
    if (t.route != kNoRoute) {
      fmt::format_to(out, ", \"route\": {}", t.route);
    }
    if (t.source_pass != 0) {
      fmt::format_to(out, ", \"source_pass\": {}", t.source_pass);
    }
    if (t.target_pass != 0) {
      fmt::format_to(out, ", \"target_pass\": {}", t.target_pass);
    }
    text += '}';
  }
  text += transfers.empty() ? "]\n" : "\n  ]\n";
}

Result<std::string> write(const Schedule& schedule) {
  PLEACH_TRY(refuse_bad_ranges(schedule));
  std::string text;
  text.reserve(schedule.transfers.size() * kTransferBytes + 4096);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"collective\": \"{}\",\n",
                 kFormatName, names_passes(schedule) ? kFormatVersion : kFormatVersion - 1,
                 to_text(schedule.collective));
  if (has_root(schedule.collective)) {
    fmt::format_to(out, "  \"root\": {},\n", schedule.root.value);
  }
  fmt::format_to(out, "  \"participants\": {},\n",
                 list(schedule.participants, [](NodeId node) { return node.value; }));
  write_chunks(text, schedule.chunks);
  fmt::format_to(out, "  \"period\": {},\n  \"phase_steps\": {},\n", schedule.period,
                 list(schedule.phase_steps));
  if (schedule.fold_order != FoldOrder::kOwnFirst) {
    fmt::format_to(out, "  \"fold_order\": \"{}\",\n", kByRank);
  }
  if (schedule.symmetry) {
    fmt::format_to(out, "  \"symmetry\": {},\n", list(schedule.symmetry->dimensions));
  }
  write_provenance(text, schedule.provenance);
  write_routes(text, schedule.routes);
  write_transfers(text, schedule.transfers);
  text += "}\n";
  return text;
}

// Reading.

// Where in the file the reader is: inside which array or object.
enum class Place : uint8_t {
  kOutside,
  kTop,
  kParticipants,
  kWeights,
  kPhaseSteps,
  kSymmetry,
  kRoutes,
  kRoute,
  kTransfers,
  kTransfer,
  kProvenance,
  kCertificate,
};
constexpr std::size_t kPlaceCount = 12;

enum class Kind : uint8_t { kInteger, kNumber, kText, kBoolean, kArray, kObject };

enum class Key : uint8_t {
  kFormat,
  kVersion,
  kCollective,
  kRoot,
  kParticipants,
  kChunkCount,
  kChunkWeights,
  kPeriod,
  kPhaseSteps,
  kFoldOrder,
  kSymmetry,
  kProvenance,
  kRoutes,
  kTransfers,
  kStep,
  kFirstChunk,
  kTransferChunkCount,
  kSource,
  kTarget,
  kOp,
  kRoute,
  kSourcePass,
  kTargetPass,
  kAlgorithm,
  kOptions,
  kTopologyFingerprint,
  kCertificate,
  kBoundAlgbw,
  kAlgbw,
  kFraction,
  kExact,
  kWitness,
  kAlpha,
  kBeta,
};

struct Field {
  Place place;  // the object that it belongs to
  Key key;
  std::string_view name;
  Kind kind;
  bool is_required = false;
  Place inside = Place::kOutside;  // of an array or object
};

constexpr std::array kFields = {
    Field{Place::kTop, Key::kFormat, "format", Kind::kText, true},
    Field{Place::kTop, Key::kVersion, "version", Kind::kInteger, true},
    Field{Place::kTop, Key::kCollective, "collective", Kind::kText, true},
    Field{Place::kTop, Key::kRoot, "root", Kind::kInteger},
    Field{Place::kTop, Key::kParticipants, "participants", Kind::kArray, true,
          Place::kParticipants},
    Field{Place::kTop, Key::kChunkCount, "chunk_count", Kind::kInteger},
    Field{Place::kTop, Key::kChunkWeights, "chunk_weights", Kind::kArray, false, Place::kWeights},
    Field{Place::kTop, Key::kPeriod, "period", Kind::kInteger},
    Field{Place::kTop, Key::kPhaseSteps, "phase_steps", Kind::kArray, false, Place::kPhaseSteps},
    Field{Place::kTop, Key::kFoldOrder, "fold_order", Kind::kText},
    Field{Place::kTop, Key::kSymmetry, "symmetry", Kind::kArray, false, Place::kSymmetry},
    Field{Place::kTop, Key::kProvenance, "provenance", Kind::kObject, false, Place::kProvenance},
    Field{Place::kTop, Key::kRoutes, "routes", Kind::kArray, false, Place::kRoutes},
    Field{Place::kTop, Key::kTransfers, "transfers", Kind::kArray, true, Place::kTransfers},
    Field{Place::kTransfer, Key::kStep, "step", Kind::kInteger, true},
    Field{Place::kTransfer, Key::kFirstChunk, "first_chunk", Kind::kInteger, true},
    Field{Place::kTransfer, Key::kTransferChunkCount, "chunk_count", Kind::kInteger},
    Field{Place::kTransfer, Key::kSource, "source", Kind::kInteger, true},
    Field{Place::kTransfer, Key::kTarget, "target", Kind::kInteger, true},
    Field{Place::kTransfer, Key::kOp, "op", Kind::kText, true},
    Field{Place::kTransfer, Key::kRoute, "route", Kind::kInteger},
    Field{Place::kTransfer, Key::kSourcePass, "source_pass", Kind::kInteger},
    Field{Place::kTransfer, Key::kTargetPass, "target_pass", Kind::kInteger},
    Field{Place::kProvenance, Key::kAlgorithm, "algorithm", Kind::kText},
    Field{Place::kProvenance, Key::kOptions, "options", Kind::kText},
    Field{Place::kProvenance, Key::kTopologyFingerprint, "topology_fingerprint", Kind::kText},
    Field{Place::kProvenance, Key::kCertificate, "certificate", Kind::kObject, false,
          Place::kCertificate},
    Field{Place::kCertificate, Key::kBoundAlgbw, "bound_algbw_bytes_per_s", Kind::kNumber},
    Field{Place::kCertificate, Key::kAlgbw, "algbw_bytes_per_s", Kind::kNumber},
    Field{Place::kCertificate, Key::kFraction, "fraction", Kind::kNumber},
    Field{Place::kCertificate, Key::kExact, "exact", Kind::kBoolean},
    Field{Place::kCertificate, Key::kWitness, "witness", Kind::kText},
    Field{Place::kCertificate, Key::kAlpha, "alpha_s", Kind::kNumber},
    Field{Place::kCertificate, Key::kBeta, "beta_s_per_byte", Kind::kNumber},
};

std::string other_version(int64_t version) {
  return fmt::format("{}; this program reads versions up to {}", version, kFormatVersion);
}

constexpr uint64_t bit(Key key) {
  return uint64_t{1} << static_cast<int>(key);
}

constexpr std::array<Name<Kind>, 6> kKindNames = {{
    {Kind::kInteger, "an integer"},
    {Kind::kNumber, "a number"},
    {Kind::kText, "a text"},
    {Kind::kBoolean, "true or false"},
    {Kind::kArray, "an array"},
    {Kind::kObject, "an object"},
}};

// Receives the parser's events and builds the schedule. The first error ends the parse.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view content, const std::string& path) : content_(content), path_(path) {}

  Result<Schedule> finish() &&;
  const std::optional<Error>& error() const { return error_; }

  bool null() override { return fail("null is no value here"); }
  bool boolean(bool value) override;
  bool number_integer(int64_t value) override { return integer(value); }
  bool number_unsigned(uint64_t value) override;
  bool number_float(double value, const std::string& text) override;
  bool string(std::string& value) override;
  bool binary(Json::binary_t& /*value*/) override { return fail("binary data"); }
  bool start_object(std::size_t /*size*/) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t /*size*/) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& cause) override;

 private:
  bool fail(const std::string& why);
  std::string where() const;
  bool expect(Kind given);
  bool integer(int64_t value);
  bool list_entry(int64_t value, int32_t narrow);
  bool top_integer(int64_t value, int32_t narrow);
  int32_t* transfer_integer();
  double* certificate_number();
  bool fingerprint(const std::string& text);
  bool require(Place place);
  bool has(Key key) const { return (seen_[at(Place::kTop)] & bit(key)) != 0; }
  bool take_weights();

  struct Pending {  // read, and no part of the schedule yet
    Transfer transfer;
    int32_t source_pass = 0, target_pass = 0;
    std::vector<LinkId> route;
    std::vector<int64_t> weights;
    int32_t chunk_count = 1;
    int64_t version = kFormatVersion;
  };

  std::string_view content_;
  const std::string& path_;
  std::optional<Error> error_;
  Schedule schedule_;
  Place place_ = Place::kOutside;
  const Field* field_ = nullptr;                 // the key last read, in place_
  std::array<uint64_t, kPlaceCount> seen_ = {};  // keys, by object
  Pending pending_;
};

bool Reader::fail(const std::string& why) {
  const std::string place = where();
  error_ = invalid(fmt::format("{}: {}{}{}", path_, place, place.empty() ? "" : ": ", why));
  return false;
}

// "transfers[17]: step", "participants[3]".
std::string Reader::where() const {
  const std::string_view name = field_ == nullptr ? std::string_view() : field_->name;
  switch (place_) {
    case Place::kOutside:
      return "";
    case Place::kTop:
      return std::string(name);
    case Place::kParticipants:
      return fmt::format("participants[{}]", schedule_.participants.size());
    case Place::kWeights:
      return fmt::format("chunk_weights[{}]", pending_.weights.size());
    case Place::kPhaseSteps:
      return fmt::format("phase_steps[{}]", schedule_.phase_steps.size());
    case Place::kSymmetry:
      return fmt::format("symmetry[{}]", schedule_.symmetry->dimensions.size());
    case Place::kRoutes:
      return fmt::format("routes[{}]", schedule_.routes.size());
    case Place::kRoute:
      return fmt::format("routes[{}][{}]", schedule_.routes.size(), pending_.route.size());
    case Place::kTransfers:
      return fmt::format("transfers[{}]", schedule_.transfers.size());
    case Place::kTransfer:
      return fmt::format("transfers[{}]{}{}", schedule_.transfers.size(), name.empty() ? "" : ": ",
                         name);
    case Place::kProvenance:
      return fmt::format("provenance{}{}", name.empty() ? "" : ".", name);
    case Place::kCertificate:
      return fmt::format("certificate{}{}", name.empty() ? "" : ".", name);
  }
  return "";
}

// Whether a value of this kind may stand here.
bool Reader::expect(Kind given) {
  Kind wanted = Kind::kInteger;  // an entry of most arrays
  switch (place_) {
    case Place::kOutside:
    case Place::kTransfers:
      wanted = Kind::kObject;
      break;
    case Place::kRoutes:
      wanted = Kind::kArray;
      break;
    case Place::kTop:
    case Place::kTransfer:
    case Place::kProvenance:
    case Place::kCertificate:
      wanted = field_->kind;
      break;
    default:
      break;
  }
  if (given == wanted || (given == Kind::kInteger && wanted == Kind::kNumber)) {
    return true;
  }
  return fail(
      fmt::format("expected {}, got {}", name_of(kKindNames, wanted), name_of(kKindNames, given)));
}

bool Reader::boolean(bool value) {
  if (!expect(Kind::kBoolean)) {
    return false;
  }
  schedule_.provenance.certificate.exact = value;  // the only one
  return true;
}

bool Reader::number_unsigned(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    return integer(static_cast<int64_t>(value));
  }
  if (field_ != nullptr && place_ == Place::kCertificate && field_->kind == Kind::kNumber) {
    return number_float(static_cast<double>(value), "");
  }
  return fail(fmt::format("{} is out of range", value));
}

bool Reader::number_float(double value, const std::string& text) {
  if (place_ != Place::kCertificate) {  // nlohmann gives integers beyond 64 bits as floats too
    return expect(Kind::kNumber) && fail(fmt::format("{} is out of range", pleach::quoted(text)));
  }
  if (!expect(Kind::kNumber)) {
    return false;
  }
  *certificate_number() = value;
  return true;
}

bool Reader::integer(int64_t value) {
  if (!expect(Kind::kInteger)) {
    return false;
  }
  if (place_ == Place::kCertificate) {
    *certificate_number() = static_cast<double>(value);
    return true;
  }
  const bool is_narrow = value >= INT32_MIN && value <= INT32_MAX;
  if (!is_narrow && place_ != Place::kWeights) {
    return fail(fmt::format("{} is out of range", value));
  }
  const auto narrow = static_cast<int32_t>(is_narrow ? value : 0);
  if (place_ == Place::kTransfer) {
    const bool is_pass = field_->key == Key::kSourcePass || field_->key == Key::kTargetPass;
    if (is_pass && (value < 0 || value >= kMaxSwitchPasses)) {
      return fail(fmt::format("{} is not in 0..{}", value, kMaxSwitchPasses - 1));
    }
    *transfer_integer() = narrow;
    return true;
  }
  return place_ == Place::kTop ? top_integer(value, narrow) : list_entry(value, narrow);
}

bool Reader::list_entry(int64_t value, int32_t narrow) {
  switch (place_) {
    case Place::kParticipants:
      schedule_.participants.push_back(NodeId{narrow});
      break;
    case Place::kWeights:
      pending_.weights.push_back(value);
      break;
    case Place::kPhaseSteps:
      schedule_.phase_steps.push_back(narrow);
      break;
    case Place::kSymmetry:
      schedule_.symmetry->dimensions.push_back(narrow);
      break;
    default:
      pending_.route.push_back(LinkId{narrow});
      break;
  }
  return true;
}

bool Reader::top_integer(int64_t value, int32_t narrow) {
  switch (field_->key) {
    case Key::kVersion:
      pending_.version = value;
      return (value >= 1 && value <= kFormatVersion) || fail(other_version(value));
    case Key::kRoot:
      schedule_.root = Rank{narrow};
      break;
    case Key::kChunkCount:
      if (narrow < 1) {
        return fail(fmt::format("{} is less than 1", value));
      }
      pending_.chunk_count = narrow;
      break;
    default:
      schedule_.period = narrow;
      break;
  }
  return true;
}

int32_t* Reader::transfer_integer() {
  switch (field_->key) {
    case Key::kStep:
      return &pending_.transfer.step;
    case Key::kFirstChunk:
      return &pending_.transfer.first_chunk;
    case Key::kTransferChunkCount:
      return &pending_.transfer.chunk_count;
    case Key::kSource:
      return &pending_.transfer.source.value;
    case Key::kTarget:
      return &pending_.transfer.target.value;
    case Key::kSourcePass:
      return &pending_.source_pass;
    case Key::kTargetPass:
      return &pending_.target_pass;
    default:
      return &pending_.transfer.route;
  }
}

double* Reader::certificate_number() {
  Certificate& certificate = schedule_.provenance.certificate;
  switch (field_->key) {
    case Key::kBoundAlgbw:
      return &certificate.bound_algbw_bytes_per_s;
    case Key::kAlgbw:
      return &certificate.algbw_bytes_per_s;
    case Key::kFraction:
      return &certificate.fraction;
    case Key::kAlpha:
      return &certificate.alpha_s;
    default:
      return &certificate.beta_s_per_byte;
  }
}

bool Reader::string(std::string& value) {
  if (!expect(Kind::kText)) {
    return false;
  }
  switch (field_->key) {
    case Key::kFormat:
      return value == kFormatName ||
             fail(fmt::format("expected '{}', got {}", kFormatName, pleach::quoted(value)));
    case Key::kCollective: {
      const auto kind = parse_collective(value);
      if (!kind) {
        return fail(kind.error().message);
      }
      schedule_.collective = *kind;
      return true;
    }
    case Key::kOp:
      if (value != "copy" && value != "reduce") {
        return fail(fmt::format("expected 'copy' or 'reduce', got {}", pleach::quoted(value)));
      }
      pending_.transfer.op = value == "reduce" ? TransferOp::kReduce : TransferOp::kCopy;
      return true;
    case Key::kFoldOrder:
      if (value != kOwnFirst && value != kByRank) {
        return fail(fmt::format("expected '{}' or '{}', got {}", kOwnFirst, kByRank,
                                pleach::quoted(value)));
      }
      schedule_.fold_order = value == kByRank ? FoldOrder::kByRank : FoldOrder::kOwnFirst;
      return true;
    case Key::kTopologyFingerprint:
      return fingerprint(value);
    case Key::kAlgorithm:
      schedule_.provenance.algorithm = value;
      return true;
    case Key::kOptions:
      schedule_.provenance.options = value;
      return true;
    default:
      schedule_.provenance.certificate.witness = value;
      return true;
  }
}

bool Reader::fingerprint(const std::string& text) {
  const std::string_view digits =
      std::string_view(text).substr(std::min<std::size_t>(2, text.size()));
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (!text.starts_with("0x") || code != std::errc() || end != digits.data() + digits.size()) {
    return fail(
        fmt::format("expected '0x' and up to 16 hexadecimal digits, got {}", pleach::quoted(text)));
  }
  schedule_.provenance.topology_fingerprint = value;
  return true;
}

bool Reader::start_object(std::size_t /*size*/) {
  if (!expect(Kind::kObject)) {
    return false;
  }
  switch (place_) {
    case Place::kOutside:
      place_ = Place::kTop;
      break;
    case Place::kTransfers:
      place_ = Place::kTransfer;
      pending_.transfer = Transfer{};
      pending_.source_pass = pending_.target_pass = 0;
      break;
    default:
      place_ = field_->inside;
      break;
  }
  seen_[at(place_)] = 0;
  field_ = nullptr;
  return true;
}

bool Reader::key(std::string& name) {
  check_interruption();
  field_ = nullptr;
  for (const Field& field : kFields) {
    if (field.place == place_ && field.name == name) {
      field_ = &field;
    }
  }
  if (field_ == nullptr) {
    std::vector<std::string> known;
    for (const Field& field : kFields) {
      if (field.place == place_) {
        known.emplace_back(field.name);
      }
    }
    return fail(unknown_name("key", name, known).message);
  }
  uint64_t& seen = seen_[at(place_)];
  if ((seen & bit(field_->key)) != 0) {
    return fail("the key is repeated");
  }
  seen |= bit(field_->key);
  return true;
}

// Whether the object that ends here has all it must have.
bool Reader::require(Place place) {
  for (const Field& field : kFields) {
    const uint64_t seen = seen_[at(place)];
    if (field.place == place && field.is_required && (seen & bit(field.key)) == 0) {
      return fail(fmt::format("'{}' is missing", field.name));
    }
  }
  return true;
}

bool Reader::end_object() {
  field_ = nullptr;
  if (!require(place_)) {
    return false;
  }
  switch (place_) {
    case Place::kTransfer:
      pending_.transfer.source_pass = static_cast<uint16_t>(pending_.source_pass);
      pending_.transfer.target_pass = static_cast<uint16_t>(pending_.target_pass);
      schedule_.transfers.push_back(pending_.transfer);
      place_ = Place::kTransfers;
      break;
    case Place::kCertificate:
      place_ = Place::kProvenance;
      break;
    case Place::kProvenance:
      place_ = Place::kTop;
      break;
    default:
      place_ = Place::kOutside;
      break;
  }
  return true;
}

bool Reader::start_array(std::size_t /*size*/) {
  if (!expect(Kind::kArray)) {
    return false;
  }
  if (place_ == Place::kRoutes) {
    place_ = Place::kRoute;
    pending_.route.clear();
    return true;
  }
  if (field_->key == Key::kSymmetry) {
    schedule_.symmetry = Symmetry{};
  }
  place_ = field_->inside;
  return true;
}

bool Reader::end_array() {
  if (place_ == Place::kRoute) {
    schedule_.routes.add(pending_.route);
    place_ = Place::kRoutes;
  } else {
    place_ = Place::kTop;
  }
  return true;
}

bool Reader::parse_error(std::size_t position, const std::string& token,
                         const nlohmann::detail::exception& /*cause*/) {
  const std::size_t read = std::min(position, content_.size());
  const auto line =
      1 + std::count(content_.begin(), content_.begin() + static_cast<std::ptrdiff_t>(read), '\n');
  const std::string what = position > content_.size() ? "the file ends too early"
                                                      : "no valid JSON at " + pleach::quoted(token);
  error_ = invalid(fmt::format("{}:{}: {}", path_, line, what));
  return false;
}

// The grid from chunk_count, chunk_weights or both.
bool Reader::take_weights() {
  if (!has(Key::kChunkWeights)) {
    schedule_.chunks = ChunkGrid::uniform(pending_.chunk_count);
    return has(Key::kChunkCount) || fail("'chunk_count' or 'chunk_weights' is missing");
  }
  if (has(Key::kChunkCount) && at(pending_.chunk_count) != pending_.weights.size()) {
    return fail(fmt::format("chunk_weights: {} of them for a chunk_count of {}",
                            pending_.weights.size(), pending_.chunk_count));
  }
  if (!ChunkGrid::valid(pending_.weights)) {
    return fail("chunk_weights: must be positive with a sum within int64");
  }
  schedule_.chunks = ChunkGrid::weighted(std::move(pending_.weights));
  return true;
}

Result<Schedule> Reader::finish() && {
  if (!take_weights()) {
    return *error_;
  }
  if (pending_.version == 1 && names_passes(schedule_)) {
    return invalid(fmt::format("{}: version: 1 knows no passes of switches, 2 does", path_));
  }
  if (!has(Key::kPhaseSteps) && !schedule_.transfers.empty()) {
    int32_t last = 0;
    for (const Transfer& transfer : schedule_.transfers) {
      last = std::max(last, transfer.step);
    }
    schedule_.phase_steps.push_back(std::min(last, kMaxScheduleSteps) + 1);
  }
  if (!has(Key::kPeriod)) {
    schedule_.period = std::max(schedule_.step_count(), 1);
  }
  return finish_reading(std::move(schedule_), path_);
}

// The file's version, if it is valid JSON that has one; keeps nothing else.
std::optional<int64_t> version_of(std::string_view content) {
  bool is_version = false;
  std::optional<int64_t> version;
  const auto keep = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      is_version = parsed == "version";
    } else if (depth == 1 && event == Json::parse_event_t::value && is_version &&
               parsed.is_number_integer()) {
      version = parsed.get<int64_t>();
    }
    return event == Json::parse_event_t::key || depth == 0;
  };
  const Json rest = Json::parse(content.begin(), content.end(), keep, false);
  return rest.is_discarded() ? std::nullopt : version;
}

Result<Schedule> read(std::string_view content, const std::string& path) {
  Reader reader(content, path);
  if (!Json::sax_parse(content.begin(), content.end(), &reader)) {
    // What a later version means by its keys is not for this reader to judge.
    const auto version = version_of(content);
    if (version && (*version < 1 || *version > kFormatVersion)) {
      return invalid(fmt::format("{}: version: {}", path, other_version(*version)));
    }
    return *reader.error();
  }
  return std::move(reader).finish();
}

bool recognises(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

}  // namespace

extern const ScheduleFormat kJsonFormat = {
    .name = "json",
    .summary = "JSON: for people and other programs",
    .extension = ".json",
    .recognises = &recognises,
    .write = &write,
    .read = &read,
};

}  // namespace pleach
