// Prints for the command line: the only functions of it that write to a stream.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace pleach {

// `text` with control characters other than line ends as \xNN. Names, files, variables and other
// programs bring any characters, and a terminal obeys them.
std::string printable(std::string_view text);

// Prints printable(text). Throws std::system_error where the stream cannot be written to.
void print_text(std::FILE* to, std::string_view text);

// Prints `text` as it is: what a rank has printed, for the terminal of the rank.
void print_raw(std::FILE* to, std::string_view text);

// Prints "SPEAKER: MESSAGE" as one line: a line end of the message is a control character too.
// Prints an error. If the stream cannot be written to, nothing else is done.
void print_error(std::FILE* to, std::string_view speaker, std::string_view message);

// "cannot write to the standard output", from the errno of the write; it names the limit where one
// forbids it.
std::string unwritten_text(int error_number);

}  // namespace pleach
