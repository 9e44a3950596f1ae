#include "pleach/cli/print.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <cerrno>
#include <cstdlib>
#include <functional>

namespace pleach {
namespace {

std::string printed(const std::function<void(std::FILE*)>& print) {
  char* memory = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = open_memstream(&memory, &size);
  print(stream);
  std::fclose(stream);
  const std::string text(memory, size);
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
  return text;
}

TEST(Print, EscapesWhatATerminalObeysAndKeepsLines) {
  struct Case {
    std::string text, shown;
  };
  for (const auto& [text, shown] : {Case{"", ""},
                                    {"two\nlines\n", "two\nlines\n"},
                                    {"\n\n", "\n\n"},
                                    {"\x1b[31mred", "\\x1b[31mred"},
                                    {"a\rb\tc\x7f", "a\\x0db\\x09c\\x7f"},
                                    {"\u009b31m", "\\xc2\\x9b31m"},
                                    {"\u202eturned", "\\xe2\\x80\\xaeturned"},
                                    {"µs", "µs"},
                                    {"\xff\n", "\\xff\n"}}) {
    EXPECT_EQ(printed([&](std::FILE* out) { print_text(out, text); }), shown);
    EXPECT_EQ(printed([&](std::FILE* out) { print_raw(out, text); }), text);
  }
}

TEST(Print, ErrorsAreOneLine) {
  EXPECT_EQ(printed([](std::FILE* out) { print_error(out, "pleach \x1b", "two\nlines"); }),
            "pleach \\x1b: two\\x0alines\n");
}

TEST(Print, NamesTheLimitOfAFile) {
  EXPECT_EQ(unwritten_text(ENOSPC), "cannot write to the standard output");
  EXPECT_EQ(unwritten_text(EFBIG), "cannot write to the standard output: File too large");
}

}  // namespace
}  // namespace pleach
