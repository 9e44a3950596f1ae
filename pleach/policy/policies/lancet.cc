// Lancet: mixture-of-experts layers whose all_to_alls overlap with computation; gradients as DDP.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/exchange_parts.h"
#include "pleach/policy/policy.h"

namespace pleach {
namespace {

class Lancet : public BucketPolicy {
 public:
  Lancet(const ParameterSpace& space, std::vector<ByteRange> buckets, std::vector<int32_t> parts)
      : BucketPolicy(space, std::move(buckets)), parts_(std::move(parts)) {}
  PolicyNeeds needs() const override {
    return {.step_at_once = true, .exchange_parts = parts_, .defers_weight_gradients = true};
  }

 private:
  std::vector<int32_t> parts_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  std::vector<int32_t> parts;
  for (const PolicyLayer& layer : setting.profile.layers) {
    if (layer.exchange_bytes > 0 && !setting.costs.has(CollectiveKind::kAllToAll)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("policy lancet needs all_to_all for layer {}, which the algorithm "
                               "does not do",
                               parts.size())};
    }
    parts.push_back(
        best_exchange_parts(layer, setting.costs, static_cast<int32_t>(options.integer("parts"))));
  }
  const ParameterSpace space(setting.profile);
  return std::unique_ptr<Policy>(std::make_unique<Lancet>(
      space, fuse_backward(space, options.number("first_bucket"), options.number("bucket")),
      std::move(parts)));
}

}  // namespace

extern const PolicyDescriptor kLancetPolicy = {
    .name = "lancet",
    .summary = "all_to_alls in parts beside computation, weight gradients deferred; else as ddp",
    .source = "Jiang et al., Lancet, MLSys 2024",
    .options = {{.name = "parts",
                 .kind = OptionDescriptor::Kind::kInteger,
                 .default_value = "8",
                 .summary = "most parts of an all_to_all and the computation beside it",
                 .least = 1,
                 .most = 1024},
                {.name = "first_bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "1MiB",
                 .summary = "bytes at which the first bucket closes"},
                {.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "25MiB",
                 .summary = "bytes at which every other bucket closes"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
