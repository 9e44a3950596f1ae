#include <array>

#include "pleach/workload/models/builtin.h"

namespace pleach {
namespace {

constexpr std::array kModels = {
    &kResnet50,         &kResnet152,     &kDensenet201, &kInceptionV4,      &kVgg16,
    &kAlexnet,          &kGooglenet,     &kBertBase,    &kBertLarge,        &kGpt3,
    &kTransformer17b,   &kTransformer1t, &kLlama,       &kMixtureOfExperts, &kAlphagozero,
    &kFasterRcnn,       &kNcf,           &kTransformer, &kMultitreeAlexnet, &kMultitreeGooglenet,
    &kMultitreeResnet50};

}  // namespace

std::span<const WorkloadDescriptor* const> workload_models() {
  return kModels;
}

}  // namespace pleach
