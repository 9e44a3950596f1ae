#include "pleach/workload/workload.h"

#include <fmt/format.h>

#include "pleach/base/text.h"
#include "pleach/workload/json.h"

namespace pleach {
namespace {

constexpr int64_t kFileLimitBytes = int64_t{64} << 20;
constexpr int64_t kMostBatch = int64_t{1} << 40;

bool is_file(std::string_view spec) {
  return spec.ends_with(".json") || spec.find('/') != std::string_view::npos;
}

Result<const WorkloadDescriptor*> find_model(const std::string& name) {
  std::vector<std::string> known;
  for (const WorkloadDescriptor* descriptor : workload_models()) {
    if (descriptor->name == name) {
      return descriptor;
    }
    known.push_back(descriptor->name);
  }
  return unknown_name("workload", name, known);
}

Result<Model> make_model(std::string_view spec) {
  PLEACH_ASSIGN(parsed, parse_spec(spec));
  PLEACH_ASSIGN(descriptor, find_model(parsed.name));
  if (!parsed.argument.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("workload {} takes options after a comma, not {}", parsed.name,
                             quoted(":" + parsed.argument))};
  }
  PLEACH_ASSIGN(options, Options::create(descriptor->options, parsed.options,
                                         fmt::format("workload {}", parsed.name)));
  PLEACH_ASSIGN(model, descriptor->create(options));
  if (const std::string canonical = options.canonical(); !canonical.empty()) {
    model.name += "," + canonical;
  }
  PLEACH_TRY(check_model(model));
  return std::move(model);
}

}  // namespace

Result<Workload> load_workload(std::string_view spec, const Accelerator& accelerator,
                               int64_t batch) {
  if (batch < 0 || batch > kMostBatch) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("batch {} is outside 0 to {}", batch, kMostBatch)};
  }
  Workload workload;
  workload.times = accelerator;
  if (is_file(spec)) {
    const std::string path(spec);
    PLEACH_ASSIGN(text, read_file(path, kFileLimitBytes));
    PLEACH_ASSIGN(file, parse_workload_json(text, one_line(path)));
    workload.model = std::move(file.model);
    if (file.times) {
      workload.times = std::move(*file.times);
    }
  } else {
    PLEACH_ASSIGN(model, make_model(spec));
    workload.model = std::move(model);
  }
  workload.batch = batch == 0 ? workload.model.batch : batch;
  return workload;
}

}  // namespace pleach
