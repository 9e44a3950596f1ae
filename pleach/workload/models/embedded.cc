// Models that are files, in the same form as users write them: networks as published in SCALE-Sim's
// topologies, which MultiTree evaluates.
#include "pleach/workload/models/embedded.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/workload/json.h"
#include "pleach/workload/model.h"

namespace pleach {
namespace {

Result<Model> read_embedded(std::string_view name) {
  const std::span<const EmbeddedWorkload> files = embedded_workloads();
  const auto found = std::ranges::find(files, name, &EmbeddedWorkload::name);
  PLEACH_CHECK(found != files.end(), "a model without its file");
  PLEACH_ASSIGN(file, parse_workload_json(found->text, fmt::format("{}.json", name)));
  return std::move(file.model);
}

constexpr const char* kMlperf =
    "Samajdar et al., SCALE-Sim, topologies/mlperf; Huang et al., MultiTree, ISCA 2021, sec. V";
constexpr const char* kConvolutions =
    "Samajdar et al., SCALE-Sim, topologies/conv_nets; Huang et al., MultiTree, ISCA 2021, sec. V";

}  // namespace

extern const WorkloadDescriptor kAlphagozero = {
    "alphagozero", "AlphaGo Zero with one residual block", kMlperf, {}, [](const Options&) {
      return read_embedded("alphagozero");
    }};
extern const WorkloadDescriptor kFasterRcnn = {
    "faster_rcnn",
    "Faster R-CNN: ResNet-50's trunk and the region proposals",
    kMlperf,
    {},
    [](const Options&) { return read_embedded("faster_rcnn"); }};
extern const WorkloadDescriptor kNcf = {
    "ncf",
    "neural collaborative filtering: four embeddings and a small network",
    kMlperf,
    {},
    [](const Options&) { return read_embedded("ncf"); }};
extern const WorkloadDescriptor kTransformer = {
    "transformer",
    "the translation transformer, one token, heads as SCALE-Sim counts them",
    kMlperf,
    {},
    [](const Options&) { return read_embedded("transformer"); }};
extern const WorkloadDescriptor kMultitreeAlexnet = {
    "multitree_alexnet",
    "AlexNet's convolutions only",
    "Krizhevsky et al., NeurIPS 2012, sec. 3.5; Huang et al., MultiTree, ISCA 2021, sec. V",
    {},
    [](const Options&) { return read_embedded("multitree_alexnet"); }};
extern const WorkloadDescriptor kMultitreeGooglenet = {
    "multitree_googlenet",
    "GoogLeNet without batch norm and biases",
    kConvolutions,
    {},
    [](const Options&) { return read_embedded("multitree_googlenet"); }};
extern const WorkloadDescriptor kMultitreeResnet50 = {
    "multitree_resnet50",
    "ResNet-50 without batch norm and biases",
    kMlperf,
    {},
    [](const Options&) { return read_embedded("multitree_resnet50"); }};

}  // namespace pleach
