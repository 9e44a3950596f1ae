#include <array>

#include "pleach/base/text.h"
#include "pleach/network/analytic/analytic.h"
#include "pleach/network/flow/flow.h"
#include "pleach/network/model.h"

namespace pleach {
namespace {

constexpr std::array<const NetworkModel*, 2> kModels = {&kFlowModel, &kAnalyticModel};

}  // namespace

std::span<const NetworkModel* const> network_models() {
  return kModels;
}

Result<const NetworkModel*> find_network_model(std::string_view name) {
  std::vector<std::string> known;
  for (const NetworkModel* model : kModels) {
    if (model->name == name) {
      return model;
    }
    known.push_back(model->name);
  }
  return unknown_name("network model", name, known);
}

}  // namespace pleach
