#include "pleach/base/options.h"

#include <gtest/gtest.h>

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

std::vector<OptionDescriptor> descriptors() {
  return {
      {"interfaces", Kind::kInteger, "4", "", {}, 1, 64},
      {"step_rule", Kind::kChoice, "complete", "", {"complete", "published"}},
      {"bucket", Kind::kSize, "25MiB", ""},
      {"bandwidth", Kind::kBandwidth, "16GB/s", ""},
      {"latency", Kind::kTime, "150ns", ""},
      {"label", Kind::kText, "", ""},
      {"fast", Kind::kChoice, "false", "", {"true", "false"}},
  };
}

TEST(Specs, ParseOrNameTheFault) {
  struct Case {
    std::string text;
    std::string name;
    std::string argument;
    std::vector<std::pair<std::string, std::string>> options;
    std::string error = {};
  };
  const std::vector<Case> cases = {
      {"ring", "ring", "", {}},
      {"ring:8", "ring", "8", {}},
      {"torus:4x4,bandwidth=16GB/s", "torus", "4x4", {{"bandwidth", "16GB/s"}}},
      {"switch:8,reduce,multicast", "switch", "8", {{"reduce", "true"}, {"multicast", "true"}}},
      {"torus:4x4,without_link=5>6", "torus", "4x4", {{"without_link", "5>6"}}},
      {"a,key==:", "a", "", {{"key", "=:"}}},
      {"a:b:c", "a", "b:c", {}},
      {"a,key=", "a", "", {{"key", ""}}},
      {"", "", "", {}, "'' has no name: expected NAME[:ARGUMENT][,key=value...]"},
      {":8", "", "", {}, "':8' has no name: expected NAME[:ARGUMENT][,key=value...]"},
      {"a,", "", "", {}, "'a,': option '' has no key"},
      {"a,=3", "", "", {}, "'a,=3': option '=3' has no key"},
  };
  for (const auto& [text, name, argument, options, error] : cases) {
    const Result<Spec> spec = parse_spec(text);
    if (error.empty()) {
      ASSERT_TRUE(spec) << spec.error().message;
      EXPECT_EQ(spec->name, name);
      EXPECT_EQ(spec->argument, argument);
      EXPECT_EQ(spec->options, options) << text;
    } else {
      ASSERT_FALSE(spec) << text;
      EXPECT_EQ(spec.error().message, error);
    }
  }
}

TEST(Options, HaveTheirDefaults) {
  const Result<Options> options = Options::create(descriptors(), {}, "x");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->integer("interfaces"), 4);
  EXPECT_EQ(options->text("step_rule"), "complete");
  EXPECT_EQ(options->number("bucket"), 26'214'400);
  EXPECT_EQ(options->number("bandwidth"), 16'000'000'000);
  EXPECT_EQ(options->number("latency"), 150'000);
  EXPECT_EQ(options->text("label"), "");
  EXPECT_EQ(options->canonical(), "");
}

TEST(Options, CanonicalTextParsesToTheSame) {
  using Given = std::vector<std::pair<std::string, std::string>>;
  const std::vector<std::pair<Given, std::string>> cases = {
      {{{"step_rule", "published"}, {"interfaces", "2"}}, "interfaces=2,step_rule=published"},
      {{{"bandwidth", "16000MB/s"}, {"interfaces", "4"}}, ""},  // the defaults, written otherwise
      {{{"label", "5-6+7>8"}, {"latency", "0"}, {"fast", "true"}},
       "fast=true,label=5-6+7>8,latency=0"},
  };
  for (const auto& [given, canonical] : cases) {
    const Result<Options> options = Options::create(descriptors(), given, "x");
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->canonical(), canonical);
    const Result<Spec> spec = parse_spec("x," + canonical);
    EXPECT_EQ(spec.has_value(), !canonical.empty());
    if (spec) {
      const Result<Options> again = Options::create(descriptors(), spec->options, "x");
      ASSERT_TRUE(again);
      EXPECT_EQ(again->canonical(), canonical);
    }
  }
}

TEST(Options, RefuseBadOnes) {
  struct Case {
    std::vector<std::pair<std::string, std::string>> given;
    std::string error;
  };
  const std::string known = "known: interfaces, step_rule, bucket, bandwidth, latency, label, fast";
  const std::vector<Case> cases = {
      {{{"step_rle", "complete"}},
       "multitree: unknown option 'step_rle'; did you mean 'step_rule'? " + known},
      {{{"interfaces", "1"}, {"interfaces", "1"}}, "multitree: option 'interfaces' is given twice"},
      {{{"interfaces", "65"}}, "multitree: option 'interfaces': value '65' is outside 1 to 64"},
      {{{"interfaces", "two"}},
       "multitree: option 'interfaces': value 'two' is not a whole number"},
      {{{"step_rule", "publishd"}},
       "multitree: option 'step_rule': unknown value 'publishd'; did you mean 'published'? "
       "known: complete, published"},
      {{{"bandwidth", "16"}},
       "multitree: option 'bandwidth': '16' is not a bandwidth: it has no unit, as 16GB/s or "
       "100Gb/s"},
      {{{"fast", "yes"}}, "multitree: option 'fast': unknown value 'yes'; known: true, false"},
  };
  for (const auto& [given, error] : cases) {
    const Result<Options> options = Options::create(descriptors(), given, "multitree");
    ASSERT_FALSE(options);
    EXPECT_EQ(options.error().message, error);
  }
}

TEST(SplitSpecs, GivesOptionsToTheSpecBeforeThem) {
  const std::vector<std::string> expected = {"dear,bucket=25MiB,x=1", "ddp"};
  EXPECT_EQ(split_specs(" dear, bucket=25MiB,x=1 ,ddp").value(), expected);
  EXPECT_EQ(split_specs("ring,./a=b.json").value(),
            (std::vector<std::string>{"ring", "./a=b.json"}));
  for (const char* text : {"", ",", "a,,b", "a,", "a=1", "a=1,b"}) {
    EXPECT_FALSE(split_specs(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace pleach
