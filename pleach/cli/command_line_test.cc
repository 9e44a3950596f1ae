#include "pleach/cli/command_line.h"

#include <gtest/gtest.h>

#include <array>

#include "pleach/base/units.h"

namespace pleach {
namespace {

// What a run of a subcommand prints on its error stream, and what it makes of its line.
class Lines : public testing::Test {
 public:
  Lines() : error_(std::tmpfile()) {}
  ~Lines() override { std::fclose(error_); }

 protected:
  std::optional<ExitCode> parse(std::vector<std::string> words) {
    invocation_ = {"pleach", std::move(words), nullptr, error_};
    line_.emplace(command_, invocation_);
    line_->required_argument("SPEC", "what");
    line_->option("-s,--size", "how much", "4KiB");
    line_->option("-n,--count", "how many");
    line_->json_flag();
    return line_->parse();
  }
  std::string printed() {
    std::array<char, 256> text = {};
    std::rewind(error_);
    const std::size_t length = std::fread(text.data(), 1, text.size(), error_);
    return {text.data(), length};
  }

  const Command command_ = {"try", "tries", "", nullptr};
  std::FILE* error_;
  Invocation invocation_;
  std::optional<CommandLine> line_;
};

TEST_F(Lines, HaveAValueForEveryOption) {
  ASSERT_FALSE(parse({"ring:4", "-n", "7"}));
  EXPECT_EQ(line_->text("SPEC"), "ring:4");
  EXPECT_TRUE(line_->given("SPEC"));
  EXPECT_EQ(line_->text("--size"), "4KiB");
  EXPECT_FALSE(line_->given("--size"));
  EXPECT_EQ(line_->value("--size", parse_size_bytes).value(), 4096);
  EXPECT_EQ(line_->text("--count"), "7");
  EXPECT_EQ(line_->text("-n"), "7");
  EXPECT_EQ(line_->count("--count", 1, 8).value(), 7);
  EXPECT_FALSE(line_->json());
  ASSERT_FALSE(parse({"x", "--json", "--size=1MB"}));
  EXPECT_TRUE(line_->json());
  EXPECT_EQ(line_->text("-s"), "1MB");
  EXPECT_EQ(line_->text("--count"), "");
}

TEST_F(Lines, NameTheOptionOfABadValue) {
  ASSERT_FALSE(parse({"x", "--size", "7Q", "--count", "9"}));
  EXPECT_TRUE(line_->value("--size", parse_size_bytes).error().message.starts_with("--size: '7Q'"));
  EXPECT_EQ(line_->count("--count", 1, 8).error().message, "--count '9' is outside 1 to 8");
}

TEST_F(Lines, RefuseWhatTheyDoNotKnow) {
  const struct {
    std::vector<std::string> words;
    std::string error;
  } cases[] = {
      {{}, "SPEC is required"},
      {{"x", "y"}, "unexpected argument 'y'"},
      {{"x", "--sise", "1"},
       "unknown option '--sise'; did you mean '--size'? known: --help, --size, --count, --json"},
      {{"x", "--size"}, "--size needs one value"},
      {{"x", "--size", ""}, "--size needs one value"},
      {{"x", "--size", "1", "--size", "2"}, "--size needs one value"},
  };
  for (const auto& [words, error] : cases) {
    std::rewind(error_);
    EXPECT_EQ(parse(words), ExitCode::kUsage) << error;
    const std::string line = "pleach try: " + error + " (see pleach try --help)\n";
    EXPECT_EQ(printed().substr(0, line.size()), line);
  }
  std::rewind(error_);
  EXPECT_EQ(line_->refuse("not so"), ExitCode::kUsage);
  EXPECT_TRUE(printed().starts_with("pleach try: not so\n"));
}

TEST(Switches, AreOnOrOff) {
  for (const char* text : {"on", "1", "true", "yes"}) {
    EXPECT_TRUE(parse_switch(text).value()) << text;
  }
  for (const char* text : {"off", "0", "false", "no"}) {
    EXPECT_FALSE(parse_switch(text).value()) << text;
  }
  EXPECT_EQ(parse_switch("maybe").error().message, "'maybe' is neither on (1, true, yes) nor off");
}

}  // namespace
}  // namespace pleach
