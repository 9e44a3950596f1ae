#include "pleach/runtime/flight_file.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/runtime/request_fingerprint.h"

namespace pleach {
namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char letter : one_line(text)) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
    }
    out += letter;
  }
  return out + '"';
}

std::string_view state_of(const FlightLog::Operation& operation) {
  if (operation.entry.finished != TimePoint()) {
    return operation.entry.has_failed ? "failed" : "done";
  }
  const bool has_data =
      std::any_of(operation.first_segments.begin(), operation.first_segments.end(),
                  [](const FirstSegment& first) { return first.has_come; });
  return has_data ? "data" : "started";
}

std::string time_json(TimePoint time) {
  return fmt::format("{:.9f}", seconds_of(time.time_since_epoch()));
}
std::string end_json(TimePoint finished) {
  return finished == TimePoint() ? "null" : time_json(finished);
}

std::string_view state_of(const FlightMessage& message) {
  if (message.finished != TimePoint()) {
    return message.has_failed ? "failed" : "done";
  }
  return "started";
}

std::string message_json(const FlightMessage& message) {
  const auto number_or_null = [](auto number, bool is_known) {
    return is_known ? fmt::format("{}", number) : std::string("null");
  };
  return fmt::format(
      R"({{"channel":"{:016x}","kind":"{}","peer":{},"tag":{},"bytes":{},"message":{},)"
      R"("matched":{},"state":"{}","started_s":{},"finished_s":{}}})",
      message.channel, message.is_send ? "send" : "receive",
      number_or_null(message.peer.value, message.peer.value >= 0), message.tag, message.bytes,
      number_or_null(message.sequence, message.sequence > 0), message.is_matched, state_of(message),
      time_json(message.started), end_json(message.finished));
}

std::string operation_json(const FlightLog::Operation& operation) {
  const FlightEntry& entry = operation.entry;
  const RequestWords words = read_request(entry.fingerprint);
  std::string first;
  for (const FirstSegment& segment : operation.first_segments) {
    first +=
        fmt::format(R"({}"{}":{})", first.empty() ? "" : ",", segment.peer.value,
                    segment.has_come ? fmt::format("{:.7f}", seconds_of(segment.after)) : "null");
  }
  return fmt::format(
      R"({{"channel":"{:016x}","operation":{},"fingerprint":"{:016x}","collective":{},"count":{},)"
      R"("type":{},"wire":{},"op":{},"segments":{},"schedule":"{:04x}","state":"{}",)"
      R"("started_s":{},"finished_s":{},"first_segment_after_s":{{{}}}}})",
      entry.channel, entry.operation, entry.fingerprint, json_text(words.collective), words.count,
      json_text(words.type), json_text(words.wire), json_text(words.op), words.segment_count,
      words.schedule, state_of(operation), time_json(entry.started), end_json(entry.finished),
      first);
}

std::string channel_json(uint64_t number, const FlightLog::Channel& channel) {
  std::string ranks;
  for (const Rank rank : channel.ranks) {
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank.value);
  }
  return fmt::format(R"({{"channel":"{:016x}","name":{},"ranks":[{}]}})", number,
                     json_text(channel.name), ranks);
}

std::string host_name() {
  std::array<char, 256> host = {};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "unknown";
}

// The handler of the signal counts, and wakes who waits for news. It may run in the midst of
// anything, so this is all that it touches; that makes it global.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<uint32_t> signal_count = 0;
std::atomic<uint32_t> news = 0;  // signals, and ends of who waits for them
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(news) == sizeof(uint32_t));

void futex(int operation, uint32_t value) {
  syscall(SYS_futex, &news, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void wake_all() {
  ++news;
  futex(FUTEX_WAKE, INT_MAX);
}

extern "C" void note_flight_signal(int /*signal*/) {
  const int before = errno;
  ++signal_count;
  wake_all();
  errno = before;
}

// The handler of a signal is the process's: it stays as long as one of its ranks wants it.
struct Handlers {
  std::mutex mutex;
  std::array<int, NSIG> users = {};
};
Handlers& handlers() {
  static Handlers all;
  return all;
}

class SignalHandler {
 public:
  SignalHandler() = default;
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler() {
    const std::scoped_lock lock(handlers().mutex);
    if (signal_ != 0 && --handlers().users.at(static_cast<std::size_t>(signal_)) == 0 &&
        is_ours(signal_)) {
      std::signal(signal_, SIG_DFL);
    }
  }

  Status install(int signal) {
    const std::scoped_lock lock(handlers().mutex);
    struct sigaction present = {};
    sigaction(signal, nullptr, &present);
    if (!is_ours(signal) && present.sa_handler != SIG_DFL) {
      return invalid(
          fmt::format("signal {} ({}) has a handler already: it cannot ask for flight "
                      "files too",
                      signal, sigabbrev_np(signal)));
    }
    struct sigaction wanted = {};
    wanted.sa_handler = note_flight_signal;
    wanted.sa_flags = SA_RESTART;
    sigaction(signal, &wanted, nullptr);
    signal_ = signal;
    ++handlers().users.at(static_cast<std::size_t>(signal));
    return ok();
  }

 private:
  static bool is_ours(int signal) {
    struct sigaction present = {};
    sigaction(signal, nullptr, &present);
    return (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == note_flight_signal;
  }
  int signal_ = 0;
};

class FolderWriter final : public FlightWriter {
 public:
  FolderWriter(const FlightOptions& options, Rank rank, Text text)
      : options_(options),
        path_(fmt::format("{}/rank-{}.json", options.folder, rank.value)),
        text_(std::move(text)) {}
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;
  ~FolderWriter() override {
    is_ending_ = true;
    if (thread_.joinable()) {
      wake_all();
      thread_.join();
    }
  }

  Status begin();
  void fail(std::string_view failure) override {
    const std::scoped_lock lock(failing_);
    if (failure_ != failure) {
      failure_ = failure;
      write({"failure", failure});
    }
  }

 private:
  void write(const FlightReason& reason) { static_cast<void>(write_file(path_, text_(reason))); }
  void wait_for_signals(uint32_t seen);

  const FlightOptions options_;
  const std::string path_;
  const Text text_;
  std::mutex failing_;
  std::string failure_;  // the last that was written
  std::atomic<bool> is_ending_ = false;
  SignalHandler handler_;
  std::thread thread_;
};

Status FolderWriter::begin() {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) {
    return Error{ErrorCode::kIo, fmt::format("cannot make the folder {} for flight files: {}",
                                             pleach::quoted(options_.folder), error.message())};
  }
  if (!options_.keeps) {
    std::filesystem::remove(path_, error);
  }
  FileSet attempt;  // a folder that takes no files is better known now
  PLEACH_TRY(attempt.add(path_, ""));
  if (options_.signal != 0) {
    PLEACH_TRY(handler_.install(options_.signal));
    thread_ = std::thread([this, seen = signal_count.load()] { wait_for_signals(seen); });
  }
  return ok();
}

void FolderWriter::wait_for_signals(uint32_t seen) {
  while (true) {
    const uint32_t before = news;
    if (is_ending_) {
      return;
    }
    if (const uint32_t count = signal_count; count != seen) {
      seen = count;
      write({"signal", ""});
    }
    futex(FUTEX_WAIT, before);  // returns at once where there is more
  }
}

// Where no folder is asked for.
class NoWriter final : public FlightWriter {
  void fail(std::string_view /*failure*/) override {}
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<FlightOptions> flight_options_from_environment() {
  FlightOptions options{.folder = variable("PLEACH_FLIGHT_FOLDER")};
  const std::string signal = variable("PLEACH_FLIGHT_SIGNAL");
  if (!signal.empty() && signal != "USR1" && signal != "USR2") {
    return invalid(
        fmt::format("PLEACH_FLIGHT_SIGNAL is {}, not USR1 or USR2", pleach::quoted(signal)));
  }
  if (!signal.empty()) {
    options.signal = signal == "USR1" ? SIGUSR1 : SIGUSR2;
  }
  return options;
}

std::string flight_text(const FlightLog& log, std::string_view job, const FlightReason& reason) {
  const double unix_s = seconds_of(std::chrono::system_clock::now().time_since_epoch());
  std::string text = fmt::format(
      R"({{"format":"pleach flight 1","rank":{},"rank_count":{},"job":{},"host":{},"process":{},)"
      R"("reason":{},"failure":{},"steady_s":{:.9f},"unix_s":{:.6f},)",
      log.rank.value, log.rank_count, json_text(job), json_text(host_name()), getpid(),
      json_text(reason.reason), reason.failure.empty() ? "null" : json_text(reason.failure),
      seconds_of(log.now.time_since_epoch()), unix_s);
  const auto add = [&](std::string_view key, const std::vector<std::string>& items) {
    text += fmt::format("\n\"{}\":[\n{}\n]", key, join(items, ",\n"));
  };
  std::vector<std::string> channels, schedules, operations, messages;
  for (const auto& [number, channel] : log.channels) {
    channels.push_back(channel_json(number, channel));
  }
  for (const auto& [mark, algorithm] : log.schedules) {
    schedules.push_back(
        fmt::format(R"({{"schedule":"{:04x}","algorithm":{}}})", mark, json_text(algorithm)));
  }
  for (const FlightLog::Operation& operation : log.operations) {
    operations.push_back(operation_json(operation));
  }
  for (const FlightMessage& message : log.messages) {
    messages.push_back(message_json(message));
  }
  add("channels", channels);
  text += ',';
  add("schedules", schedules);
  text += ',';
  add("operations", operations);
  text += ',';
  add("messages", messages);
  return text + "}\n";
}

Result<std::unique_ptr<FlightWriter>> FlightWriter::create(const FlightOptions& options, Rank rank,
                                                           Text text) {
  if (options.folder.empty()) {
    if (options.signal != 0) {
      return invalid(
          "a signal asks for flight files, and no folder is given for them "
          "(PLEACH_FLIGHT_FOLDER)");
    }
    return std::unique_ptr<FlightWriter>(std::make_unique<NoWriter>());
  }
  auto writer = std::make_unique<FolderWriter>(options, rank, std::move(text));
  PLEACH_TRY(writer->begin());
  return std::unique_ptr<FlightWriter>(std::move(writer));
}

}  // namespace pleach
