#include "pleach/base/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

namespace pleach {
namespace {

constexpr std::size_t kQuotedLimit = 80;      // letters of a quoted text
constexpr std::size_t kKnownNamesLimit = 40;  // names that a message lists
constexpr std::size_t kReadBlockBytes = std::size_t{1} << 20;

// Length of the well-formed UTF-8 sequence at the start of `text`, or 0.
//   source  The Unicode Standard, table 3-7
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) {
    return 0;
  }
  const uint8_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) {
    return 0;
  }
  for (std::size_t at = 2; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return length;
}

// Control letters and the separators that some programs take for the end of a line.
bool is_control(std::string_view letter) {
  const auto lead = static_cast<uint8_t>(letter[0]);
  if (letter.size() == 1) {
    return lead < 0x20 || lead == 0x7f;
  }
  const bool c1 = lead == 0xc2 && static_cast<uint8_t>(letter[1]) < 0xa0;
  return c1 || letter == "\u2028" || letter == "\u2029";
}

// Appends up to `limit` letters in a form that stays on one line; whether that was all of them.
bool append_safely(std::string_view text, std::size_t limit, std::string& result) {
  for (std::size_t letters = 0; !text.empty(); ++letters) {
    if (letters == limit) {
      return false;
    }
    const std::size_t length = utf8_length(text);
    const std::string_view letter = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_control(letter)) {
      for (const char byte : letter) {
        result += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
      }
    } else {
      result += letter;
    }
    text.remove_prefix(letter.size());
  }
  return true;
}

// Source: Wagner & Fischer, The String-to-String Correction Problem, 1974.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// The known name that a slip of the keyboard turns into `name`, or "".
std::string_view nearest(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 64;
  if (name.size() > kLongest) {
    return {};
  }
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongest) {
      continue;
    }
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < std::max(name.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Error io_error(std::string_view what, const std::string& path, std::string_view cause) {
  return Error{ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, pleach::quoted(path), cause)};
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Writes and closes; 0 or the errno of the step that failed.
int write_and_close(std::FILE* file, std::string_view content) {
  int cause = 0;
  if (std::fwrite(content.data(), 1, content.size(), file) != content.size()) {
    cause = errno;
  }
  if (std::fclose(file) != 0 && cause == 0) {
    cause = errno;
  }
  return cause;
}

// A new file beside `path`; its name is put into `temporary`.
std::FILE* open_beside(const std::string& path, std::string& temporary) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), attempt);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      return ::fdopen(descriptor, "wb");
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, begin)) {
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  std::string joined;
  for (const std::string& piece : pieces) {
    if (&piece != pieces.data()) {
      joined += separator;
    }
    joined += piece;
  }
  return joined;
}

std::string alternatives(std::span<const std::string> pieces) {
  if (pieces.size() < 2) {
    return join(pieces, "");
  }
  return join(pieces.first(pieces.size() - 1), ", ") + " or " + pieces.back();
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

Result<int64_t> parse_integer(std::string_view text, std::string_view what, int64_t least,
                              int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || stop != end || code == std::errc::invalid_argument) {
    return invalid(fmt::format("{} {} is not a whole number", what, quoted(text)));
  }
  if (code == std::errc::result_out_of_range || value < least || value > most) {
    return invalid(fmt::format("{} {} is outside {} to {}", what, quoted(text), least, most));
  }
  return value;
}

Result<int32_t> parse_count(std::string_view text, std::string_view what, int32_t least,
                            int32_t most) {
  PLEACH_ASSIGN(value, parse_integer(text, what, least, most));
  return static_cast<int32_t>(value);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string one_line(std::string_view text) {
  std::string line;
  append_safely(text, text.size(), line);
  return line;
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  const bool whole = append_safely(text, kQuotedLimit, result);
  return result + (whole ? "'" : "...'");
}

Error unknown_name(std::string_view what, std::string_view name,
                   std::span<const std::string> known) {
  std::string message = fmt::format("unknown {} {}", what, quoted(name));
  if (const std::string_view match = nearest(name, known); !match.empty()) {
    message += fmt::format("; did you mean {}?", quoted(match));
  } else {
    message += ";";
  }
  message += fmt::format(
      " known: {}",
      known.empty() ? "none" : join(known.first(std::min(known.size(), kKnownNamesLimit)), ", "));
  if (known.size() > kKnownNamesLimit) {
    message += fmt::format(", ... ({} in all)", known.size());
  }
  return invalid(message);
}

Result<std::string> read_file(const std::string& path, int64_t limit_bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return io_error("read", path, "it is a directory");
  }
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return io_error("read", path, std::strerror(errno));
  }
  const auto limit = static_cast<std::size_t>(limit_bytes);
  std::string content;
  while (content.size() <= limit) {
    const std::size_t size = content.size();
    const std::size_t wanted = std::min(kReadBlockBytes, limit + 1 - size);
    content.resize(size + wanted);
    const std::size_t got = std::fread(content.data() + size, 1, wanted, file.get());
    content.resize(size + got);
    if (got < wanted) {
      if (std::ferror(file.get()) != 0) {
        return io_error("read", path, std::strerror(errno));
      }
      return content;
    }
  }
  return io_error("read", path, fmt::format("it is larger than {} bytes", limit_bytes));
}

Status write_file(const std::string& path, std::string_view content) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status)) {
    return io_error("write", path, "it is a directory");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // /dev/stdout, a pipe
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const int cause = file == nullptr ? errno : write_and_close(file, content);
    return cause == 0 ? ok() : Status(io_error("write", path, std::strerror(cause)));
  }
  // A link to a file stays a link: the file behind it is replaced.
  std::string target = path;
  if (const fs::path real = fs::canonical(path, code); !code) {
    target = real.string();
  }
  std::string temporary;
  std::FILE* file = open_beside(target, temporary);
  if (file == nullptr) {
    return io_error("write", path, std::strerror(errno));
  }
  int cause = write_and_close(file, content);
  if (cause == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) {
    cause = errno;
  }
  if (cause != 0) {
    std::remove(temporary.c_str());
    return io_error("write", path, std::strerror(cause));
  }
  return ok();
}

}  // namespace pleach
