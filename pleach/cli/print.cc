#include "pleach/cli/print.h"

#include <fmt/core.h>

#include <cerrno>

#include "pleach/base/file_size_limit.h"
#include "pleach/base/text.h"

namespace pleach {

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    shown += one_line(text.substr(0, end));
    shown += '\n';
    text.remove_prefix(end + 1);
  }
  return shown + one_line(text);
}

void print_text(std::FILE* to, std::string_view text) {
  fmt::print(to, "{}", printable(text));
}

void print_raw(std::FILE* to, std::string_view text) {
  fmt::print(to, "{}", text);
}

void print_error(std::FILE* to, std::string_view speaker, std::string_view message) {
  const std::string line = fmt::format("{}: {}\n", one_line(speaker), one_line(message));
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), to));
}

std::string unwritten_text(int error_number) {
  const std::string text = "cannot write to the standard output";
  return error_number == EFBIG ? fmt::format("{}: {}", text, write_cause(error_number)) : text;
}

}  // namespace pleach
