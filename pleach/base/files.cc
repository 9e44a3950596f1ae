#include "pleach/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "pleach/base/file_size_limit.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::size_t kReadBlockBytes = std::size_t{1} << 20;
constexpr int64_t kMostDeviceBytes = int64_t{64} << 20;
constexpr int kMostSuffixes = 10'000;  // of new files

Error io_error(std::string_view what, const std::string& path, std::string_view cause) {
  return Error{ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, pleach::quoted(path), cause)};
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Writes and closes; 0 or the errno of the step that failed.
int write_and_close(std::FILE* file, std::string_view content) {
  const FileSizeLimit is_told_as_an_error;
  int cause = 0;
  if (std::fwrite(content.data(), 1, content.size(), file) != content.size()) {
    cause = errno;
  }
  if (std::fclose(file) != 0 && cause == 0) {
    cause = errno;
  }
  return cause;
}

// A new file beside `path`, with its mode; its name is put into `temporary`.
std::FILE* open_beside(const std::string& path, std::string& temporary) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), attempt);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      struct stat old = {};
      if (::stat(path.c_str(), &old) == 0) {
        static_cast<void>(::fchmod(descriptor, old.st_mode & 07777));
      }
      return ::fdopen(descriptor, "wb");
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return nullptr;
}

// Opens what can be read to its end: a file, a device, or a pipe that this process was given. To
// one with a name nobody may ever write.
Result<File> open_to_read(const std::string& path, bool& is_device) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  File file(descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb"));
  struct stat status = {};
  if (file == nullptr || ::fstat(descriptor, &status) != 0) {
    return io_error("read", path, std::strerror(errno));
  }
  const auto is_given = [&] {
    return std::ranges::any_of(std::array{"/dev/stdin", "/dev/fd/", "/proc/self/fd/"},
                               [&](const char* own) { return path.starts_with(own); });
  };
  is_device = S_ISCHR(status.st_mode);
  if (S_ISDIR(status.st_mode)) {
    return io_error("read", path, "it is a directory");
  }
  if (!S_ISREG(status.st_mode) && !is_device && !(S_ISFIFO(status.st_mode) && is_given())) {
    return io_error("read", path, "it is no regular file");
  }
  static_cast<void>(::fcntl(descriptor, F_SETFL, O_RDONLY));
  return file;
}

// Opens a device or a pipe, but no pipe that nobody reads: signals wait meanwhile.
std::FILE* open_in_place(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return nullptr;
  }
  static_cast<void>(::fcntl(descriptor, F_SETFL, O_WRONLY));
  return ::fdopen(descriptor, "wb");
}

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t limit_bytes) {
  bool is_device = false;
  PLEACH_ASSIGN(file, open_to_read(path, is_device));
  // That /dev/zero never ends should not take long to be found.
  const auto limit =
      static_cast<std::size_t>(is_device ? std::min(limit_bytes, kMostDeviceBytes) : limit_bytes);
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
  return io_error(
      "read", path,
      fmt::format("{} larger than {} bytes", is_device ? "it is a device, and" : "it is", limit));
}

std::size_t path_length(std::string_view text) {
  for (std::size_t end = text.size(); end != std::string_view::npos && end > 0;
       end = text.rfind(',', end - 1)) {
    struct stat status = {};
    if (stat(std::string(text.substr(0, end)).c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
      return end;
    }
  }
  return 0;
}

Result<std::string> read_text_file(const std::string& path, int64_t limit_bytes) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  PLEACH_ASSIGN(text, read_file(path, limit_bytes));
  if (text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
  }
  return std::move(text);
}

FileSet::~FileSet() {
  for (const Pending& file : pending_) {
    if (!file.temporary.empty()) {
      std::remove(file.temporary.c_str());
    }
  }
}

Status FileSet::add(const std::string& path, std::string_view content) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status)) {
    return io_error("write", path, "it is a directory");
  }
  if (!hold_.has_value()) {
    hold_.emplace({SIGHUP, SIGINT, SIGQUIT, SIGTERM});
  }
  Pending file = {path, path, "", ""};
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // /dev/stdout, a pipe
    file.content = content;
    pending_.push_back(std::move(file));
    return ok();
  }
  // A link to a file stays a link: the file behind it is replaced.
  if (const fs::path real = fs::canonical(path, code); !code) {
    file.target = real.string();
  }
  std::FILE* opened = open_beside(file.target, file.temporary);
  if (opened == nullptr) {
    return io_error("write", path, std::strerror(errno));
  }
  pending_.push_back(file);
  const int cause = write_and_close(opened, content);
  return cause == 0 ? ok() : Status(io_error("write", path, write_cause(cause)));
}

Status FileSet::commit() {
  for (Pending& file : pending_) {
    int cause = 0;
    if (file.temporary.empty()) {
      std::FILE* opened = open_in_place(file.path);
      cause = opened == nullptr ? errno : write_and_close(opened, file.content);
    } else if (std::rename(file.temporary.c_str(), file.target.c_str()) != 0) {
      cause = errno;
    }
    if (cause != 0) {
      return io_error("write", file.path, write_cause(cause));
    }
    file.temporary.clear();
  }
  pending_.clear();
  hold_.reset();
  return ok();
}

Status write_file(const std::string& path, std::string_view content) {
  FileSet files;
  PLEACH_TRY(files.add(path, content));
  return files.commit();
}

Result<std::string> new_file_name(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status)) {
    return io_error("write", path, "it is a directory");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return io_error("write", path, "it is no regular file");
  }
  const fs::path folder = fs::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return io_error("write", path, std::strerror(errno));
  }
  std::string name = path;
  for (int suffix = 0; fs::exists(fs::symlink_status(name, code)); ++suffix) {
    if (suffix == kMostSuffixes) {
      return io_error("write", path, fmt::format("so are {} files with suffixes", suffix));
    }
    name = fmt::format("{}.{}", path, suffix);
  }
  return name;
}

Result<std::string> write_new_file(const std::string& path, std::string_view content) {
  std::string temporary;
  std::FILE* opened = open_beside(path, temporary);
  if (opened == nullptr) {
    return io_error("write", path, std::strerror(errno));
  }
  int cause = write_and_close(opened, content);
  std::string name;
  while (cause == 0) {
    Result<std::string> free_name = new_file_name(path);
    if (!free_name) {
      std::remove(temporary.c_str());
      return free_name;
    }
    name = *free_name;
    // A link is not made over what somebody else has put there in the meantime.
    if (::link(temporary.c_str(), name.c_str()) == 0) {
      break;
    }
    cause = errno == EEXIST ? 0 : errno;
  }
  std::remove(temporary.c_str());
  if (cause != 0) {
    return io_error("write", path, write_cause(cause));
  }
  return name;
}

}  // namespace pleach
