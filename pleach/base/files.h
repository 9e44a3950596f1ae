// Whole files, read and written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/base/signal_mask.h"

namespace pleach {

// The whole file, or kIo naming the path and the cause. At most `limit_bytes`; of a character
// device 64 MiB.
Result<std::string> read_file(const std::string& path, int64_t limit_bytes = int64_t{4} << 30);
// The same of a text, without the byte-order mark of UTF-8 that editors put before it.
Result<std::string> read_text_file(const std::string& path, int64_t limit_bytes = int64_t{4} << 30);

// How much of a text, up to a comma or its end, is the path of a file that is there: as much as
// possible, as paths may have commas; 0: none of it.
std::size_t path_length(std::string_view text);

// Files that belong together: each is written beside its place when it is added, and all are put
// there by commit(). Without it nothing has happened. What is replaced keeps its mode; a link to a
// file stays a link. From the first file on, signals that would end the program wait for the end of
// the set, so that they leave all of it or nothing. Used by one thread, the only one that runs.
class FileSet {
 public:
  FileSet() = default;
  ~FileSet();
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Errors: kIo with the path and the cause.
  Status add(const std::string& path, std::string_view content);
  // The same; on an error, the places of the files before it have been filled.
  Status commit();

 private:
  struct Pending {
    std::string path;       // as it was given
    std::string target;     // the file behind it
    std::string temporary;  // beside the target; empty: the place is no regular file
    std::string content;    // of what is no regular file
  };
  std::optional<SignalMask> hold_;
  std::vector<Pending> pending_;
};

// One file, all or nothing.
Status write_file(const std::string& path, std::string_view content);

// A file that was not there before: `path`, or else path.0, path.1, ..., the first that is free.
// Returns its name.
Result<std::string> write_new_file(const std::string& path, std::string_view content);
// The name that write_new_file() would take now.
//   errors  kIo: it could not be written: `path` is a directory, or is in none that may be written
Result<std::string> new_file_name(const std::string& path);

}  // namespace pleach
