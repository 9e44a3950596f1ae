#include "pleach/workload/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace pleach {
namespace {

TEST(JsonText, FindsThePlaceOfAValue) {
  const std::string text =
      "{\"a\": [1, {\"b\": -2.5e3,\n"
      "  \"\\\"]\\u007d\": [[], {}, \"x\\\\\", true]}],\n"
      "\n"
      "\t\"c/d\" :\n"
      "   null}\n";
  const struct {
    std::string pointer;
    std::string place;
  } cases[] = {
      {"", "f:1:1"},
      {"/a", "f:1:7"},
      {"/a/0", "f:1:8"},
      {"/a/1/b", "f:1:17"},
      {"/a/1/\"]}/0", "f:2:17"},
      {"/a/1/\"]}/2", "f:2:25"},
      {"/a/1/\"]}/3", "f:2:32"},
      {"/c~1d", "f:5:4"},
      // Those that are not there are in what is.
      {"/a/2", "f:1:7"},
      {"/a/1/c/d", "f:1:11"},
      {"/a/0/0", "f:1:8"},
      {"/e", "f:1:1"},
  };
  ASSERT_TRUE(parse_json(text, "f"));
  for (const auto& one : cases) {
    const nlohmann::json::json_pointer pointer(one.pointer);
    EXPECT_EQ(json_place(text, "f", pointer), one.place) << one.pointer;
  }
  EXPECT_EQ(json_place("\xef\xbb\xbf[0]", "f", nlohmann::json::json_pointer("/0")), "f:1:5");
}

}  // namespace
}  // namespace pleach
