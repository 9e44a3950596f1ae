// The models of this folder, one file for each family; models.cc lists them.
#pragma once

#include <span>
#include <string_view>

#include "pleach/workload/model.h"

namespace pleach {

extern const WorkloadDescriptor kResnet50;
extern const WorkloadDescriptor kResnet152;
extern const WorkloadDescriptor kDensenet201;
extern const WorkloadDescriptor kInceptionV4;
extern const WorkloadDescriptor kVgg16;
extern const WorkloadDescriptor kAlexnet;
extern const WorkloadDescriptor kGooglenet;
extern const WorkloadDescriptor kBertBase;
extern const WorkloadDescriptor kBertLarge;
extern const WorkloadDescriptor kGpt3;
extern const WorkloadDescriptor kTransformer17b;
extern const WorkloadDescriptor kTransformer1t;
extern const WorkloadDescriptor kLlama;
extern const WorkloadDescriptor kMixtureOfExperts;

// Of data/NAME.json.
extern const WorkloadDescriptor kAlphagozero;
extern const WorkloadDescriptor kFasterRcnn;
extern const WorkloadDescriptor kNcf;
extern const WorkloadDescriptor kTransformer;
extern const WorkloadDescriptor kMultitreeAlexnet;
extern const WorkloadDescriptor kMultitreeGooglenet;
extern const WorkloadDescriptor kMultitreeResnet50;

// The files of data/, which the build writes into the library.
struct EmbeddedWorkload {
  std::string_view name;
  std::string_view text;
};
std::span<const EmbeddedWorkload> embedded_workloads();

}  // namespace pleach
