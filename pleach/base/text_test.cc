#include "pleach/base/text.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(Text, SplitsAndJoins) {
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {"", 1}, {"a", 1}, {"a,b", 2}, {",", 2}, {"a,,b,", 4}};
  for (const auto& [text, count] : cases) {
    const std::vector<std::string_view> pieces = split(text, ',');
    EXPECT_EQ(pieces.size(), count) << text;
    EXPECT_EQ(join(std::vector<std::string>(pieces.begin(), pieces.end()), ","), text);
  }
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, NamesAlternatives) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, ""}, {{"a"}, "a"}, {{"a", "b"}, "a or b"}, {{"a", "b", "c"}, "a, b or c"}};
  for (const auto& [pieces, text] : cases) {
    EXPECT_EQ(alternatives(pieces), text);
  }
}

TEST(Text, ParsesIntegersWhole) {
  struct Case {
    std::string text;
    int64_t value;
    std::string error;
  };
  const std::vector<Case> cases = {
      {"0", 0, ""},
      {"99", 99, ""},
      {"-5", -5, ""},
      {"100", 0, "rank '100' is outside -5 to 99"},
      {"-6", 0, "rank '-6' is outside -5 to 99"},
      {"99999999999999999999", 0, "rank '99999999999999999999' is outside -5 to 99"},
      {"", 0, "rank '' is not a whole number"},
      {"4x", 0, "rank '4x' is not a whole number"},
      {" 4", 0, "rank ' 4' is not a whole number"},
      {"+4", 0, "rank '+4' is not a whole number"},
      {"1.5", 0, "rank '1.5' is not a whole number"},
      {"-", 0, "rank '-' is not a whole number"},
  };
  for (const auto& [text, value, error] : cases) {
    const Result<int64_t> parsed = parse_integer(text, "rank", -5, 99);
    if (error.empty()) {
      ASSERT_TRUE(parsed) << parsed.error().message;
      EXPECT_EQ(*parsed, value);
    } else {
      ASSERT_FALSE(parsed) << text;
      EXPECT_EQ(parsed.error().message, error);
    }
  }
}

TEST(Text, ParsesCountsOfTheirType) {
  EXPECT_EQ(parse_count("2147483647", "ranks", 1, INT32_MAX).value(), INT32_MAX);
  EXPECT_EQ(parse_count("2147483648", "ranks", 1, INT32_MAX).error().message,
            "ranks '2147483648' is outside 1 to 2147483647");
  EXPECT_EQ(parse_count("0", "ranks", 1, 8).error().message, "ranks '0' is outside 1 to 8");
}

TEST(Text, KnowsUtf8) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"", true},
      {"abc", true},
      {"\xc3\xa9", true},           // e with acute accent
      {"\xe2\x82\xac", true},       // euro sign
      {"\xf0\x9f\x8c\xb3", true},   // a tree
      {"\xf4\x8f\xbf\xbf", true},   // the last code point
      {"\xf4\x90\x80\x80", false},  // one beyond
      {"\xed\xa0\x80", false},      // a surrogate
      {"\xc0\xaf", false},          // overlong
      {"\xe0\x80\xaf", false},      // overlong
      {"\xf0\x80\x80\x80", false},  // overlong
      {"\x80", false},              // a continuation alone
      {"\xe2\x82", false},          // cut off
      {"a\xff", false},
  };
  for (const auto& [text, well_formed] : cases) {
    EXPECT_EQ(is_utf8(text), well_formed) << pleach::quoted(text);
  }
}

TEST(Text, QuotesForOneLine) {
  EXPECT_EQ(pleach::quoted(std::string("torus")), "'torus'");
  EXPECT_EQ(pleach::quoted(std::string("a\nb\x7f")), "'a\\x0ab\\x7f'");
  EXPECT_EQ(pleach::quoted(std::string("\xff\xc3\xa9")), "'\\xff\xc3\xa9'");
  EXPECT_EQ(pleach::quoted(std::string("\xe2\x80\xa8")), "'\\xe2\\x80\\xa8'");  // line separator
  EXPECT_EQ(pleach::quoted(std::string("\xc2\x85")), "'\\xc2\\x85'");           // next line
  for (const std::string turn : {"\u200e", "\u061c", "\u202a", "\u202e", "\u2066", "\u2069"}) {
    EXPECT_EQ(pleach::quoted(turn).find(turn), std::string::npos) << pleach::quoted(turn);
  }
  for (const std::string plain : {"\u200d", "\u2010", "\u2030", "\u206a", "\U0001f600"}) {
    EXPECT_EQ(pleach::quoted(plain), "'" + plain + "'");
  }
  EXPECT_EQ(pleach::quoted(std::string(100, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(pleach::quoted(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
}

TEST(Text, QuotedIsAlwaysOneLineOfUtf8) {
  constexpr uint64_t kSeed = 7;
  Rng rng(kSeed);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text(rng.below(40), '\0');
    for (char& letter : text) {
      letter = static_cast<char>(rng.below(256));
    }
    const std::string line = pleach::quoted(text);
    EXPECT_TRUE(is_utf8(line)) << "seed " << kSeed << ", trial " << trial;
    EXPECT_EQ(line.find_first_of("\n\r\t"), std::string::npos);
  }
}

TEST(Text, UnknownNamesListKnownOnesAndTheNearest) {
  const std::vector<std::string> known = {"ring", "torus", "mesh"};
  struct Case {
    std::string name;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"rnig", "unknown shape 'rnig'; did you mean 'ring'? known: ring, torus, mesh"},
      {"tours", "unknown shape 'tours'; did you mean 'torus'? known: ring, torus, mesh"},
      {"hypercube", "unknown shape 'hypercube'; known: ring, torus, mesh"},
      {"", "unknown shape ''; known: ring, torus, mesh"},
      {"a\n", "unknown shape 'a\\x0a'; known: ring, torus, mesh"},
  };
  for (const auto& [name, message] : cases) {
    EXPECT_EQ(unknown_name("shape", name, known).message, message);
  }
  EXPECT_EQ(unknown_name("shape", "x", {}).message, "unknown shape 'x'; known: none");
  const std::vector<std::string> raw = {
      "a\xc2\x9b"
      "31m"};
  EXPECT_EQ(unknown_name("node", "wxyz", raw).message,
            R"(unknown node 'wxyz'; known: a\xc2\x9b31m)");
  const std::vector<std::string> many(100, "name");
  EXPECT_TRUE(unknown_name("node", "x", many).message.ends_with("name, ... (100 in all)"));
}

}  // namespace
}  // namespace pleach
