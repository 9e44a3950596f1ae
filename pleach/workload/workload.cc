#include "pleach/workload/workload.h"

#include <fmt/format.h>

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

Result<Model> make_model(std::string_view spec) {
  PLEACH_ASSIGN(selected, workload_models().select(spec));
  const auto& [workload, options] = selected;
  PLEACH_ASSIGN(model, workload->create(options));
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
    return invalid(fmt::format("batch {} is outside 0 to {}", batch, kMostBatch));
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
    PLEACH_SET(workload.model, make_model(spec));
  }
  workload.batch = batch == 0 ? workload.model.batch : batch;
  return workload;
}

}  // namespace pleach
