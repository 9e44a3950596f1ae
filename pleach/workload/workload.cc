#include "pleach/workload/workload.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/workload/json.h"

namespace pleach {
namespace {

constexpr int64_t kFileLimitBytes = int64_t{64} << 20;
constexpr int64_t kMostBatch = int64_t{1} << 40;

bool is_file(std::string_view spec) {
  return spec.ends_with(".json") || spec.find('/') != std::string_view::npos;
}

// A file's path, and behind ".json," the options that models of all kinds have.
std::pair<std::string, std::string_view> split_path(std::string_view spec) {
  constexpr std::string_view kEnd = ".json";
  const std::size_t end = spec.rfind(".json,");
  return end == std::string_view::npos ? std::pair{std::string(spec), std::string_view()}
                                       : std::pair{std::string(spec.substr(0, end + kEnd.size())),
                                                   spec.substr(end + kEnd.size())};
}

// Sets what the options of all models ask for, and names it.
Status adapt(Model& model, const Options& options) {
  if (const std::string canonical = options.canonical(); !canonical.empty()) {
    model.name += "," + canonical;
  }
  if (const int64_t bytes = options.integer(kElementBytesOption.name); bytes > 0) {
    model.element_bytes = static_cast<int32_t>(bytes);
  }
  return check_model(model);
}

Result<Model> make_model(std::string_view spec) {
  PLEACH_ASSIGN(parsed, parse_spec(spec));
  PLEACH_ASSIGN(workload, workload_models().find(parsed.name));
  PLEACH_ASSIGN(options, options_of(parsed, "workload " + workload->name, workload->all_options()));
  PLEACH_ASSIGN(model, workload->create(options));
  PLEACH_TRY(adapt(model, options));
  return std::move(model);
}

}  // namespace

Result<Workload> load_workload(std::string_view spec, const Accelerator& accelerator,
                               int64_t batch) {
  if (batch < 0 || batch > kMostBatch) {
    return invalid(fmt::format("batch {} is outside 0 to {}", batch, kMostBatch));
  }
  Workload workload;
  workload.times = accelerator;
  const auto [path, rest] = split_path(spec);
  if (is_file(path)) {
    PLEACH_ASSIGN(parsed, parse_spec("file" + std::string(rest)));
    PLEACH_ASSIGN(options, options_of(parsed, "workload " + one_line(path),
                                      std::span(&kElementBytesOption, 1)));
    PLEACH_ASSIGN(text, read_text_file(path, kFileLimitBytes));
    PLEACH_ASSIGN(file, parse_workload_json(text, one_line(path)));
    workload.model = std::move(file.model);
    PLEACH_TRY(adapt(workload.model, options));
    if (file.times) {
      workload.times = std::move(*file.times);
    }
  } else {
    PLEACH_SET(workload.model, make_model(spec));
  }
  workload.batch = batch == 0 ? workload.model.batch : batch;
  return workload;
}

}  // namespace pleach
