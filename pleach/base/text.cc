#include "pleach/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

namespace pleach {
namespace {

constexpr std::size_t kQuotedLimit = 80;      // letters of a quoted text
constexpr std::size_t kKnownNamesLimit = 40;  // names that a message lists

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

// Control letters, the separators that some programs take for the end of a line, and the marks that
// turn the direction of what follows.
bool is_control(std::string_view letter) {
  const auto lead = static_cast<uint8_t>(letter[0]);
  if (letter.size() == 1) {
    return lead < 0x20 || lead == 0x7f;
  }
  const bool c1 = lead == 0xc2 && static_cast<uint8_t>(letter[1]) < 0xa0;
  const auto is_within = [&](std::string_view first, std::string_view last) {
    return letter >= first && letter <= last;  // UTF-8 sorts as its letters do
  };
  return c1 || letter == "\u061c" || is_within("\u200e", "\u200f") ||
         is_within("\u2028", "\u202e") || is_within("\u2066", "\u2069");
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

// Without what spellings differ in: "AllReduce", "all-reduce" and "all_reduce" are the same.
std::string spelled(std::string_view name) {
  std::string result;
  for (const char letter : name) {
    if (letter != '_' && letter != '-') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return result;
}

// The known name that a slip of the keyboard or another spelling turns into `name`, or "".
std::string_view nearest(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 64;
  if (name.size() > kLongest) {
    return {};
  }
  const auto same = [wanted = spelled(name)](const std::string& candidate) {
    return spelled(candidate) == wanted;
  };
  if (const auto found = std::ranges::find_if(known, same); found != known.end()) {
    return *found;
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

Error unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                   std::string_view meant) {
  std::string message = fmt::format("unknown {} {}", what, quoted(name));
  if (meant.empty()) {
    meant = nearest(name, known);
  }
  if (!meant.empty()) {
    message += fmt::format("; did you mean {}?", quoted(meant));
  } else {
    message += ";";
  }
  std::vector<std::string> shown;
  for (const std::string& one : known.first(std::min(known.size(), kKnownNamesLimit))) {
    shown.push_back(one_line(one));
  }
  message += fmt::format(" known: {}", known.empty() ? "none" : join(shown, ", "));
  if (known.size() > kKnownNamesLimit) {
    message += fmt::format(", ... ({} in all)", known.size());
  }
  return invalid(message);
}

}  // namespace pleach
