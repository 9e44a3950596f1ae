// Flight files: what a rank's flight recorder holds, as JSON; `pleach flight` reads them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/flight_recorder.h"

namespace pleach {

struct FlightOptions {
  std::string folder = {};  // for `rank-R.json`; empty: none is written
  int signal = 0;           // that asks for one at any time; 0: none
  bool keeps = false;       // a file that is there already, of the job's last epoch
};
// PLEACH_FLIGHT_FOLDER, and PLEACH_FLIGHT_SIGNAL: USR1 or USR2.
//   errors  kInvalidArgument naming the variable and its value
Result<FlightOptions> flight_options_from_environment();

// Why a file is written.
struct FlightReason {
  std::string_view reason;   // "failure", "signal" or "request"
  std::string_view failure;  // the job's; empty: none
};
// One object, a line for each operation and each message. Times are those of the steady clock;
// `steady_s` and `unix_s` say when the log was taken, by both clocks.
std::string flight_text(const FlightLog& log, std::string_view job, const FlightReason& reason);

// Writes a rank's file: at its first failure, and whenever the signal comes. A thread waits for
// that: the handler only counts. Handlers of others stay: then there is an error. Thread safe.
class FlightWriter {
 public:
  using Text = std::function<std::string(const FlightReason& reason)>;
  // Makes the folder, and removes the file that an earlier job may have left there for the rank.
  // `text` must outlive it.
  //   errors  kInvalidArgument: a signal without a folder, one that somebody handles already; kIo
  static Result<std::unique_ptr<FlightWriter>> create(const FlightOptions& options, Rank rank,
                                                      Text text);
  virtual ~FlightWriter() = default;
  // The job, or a communicator that fails alone, has failed; a failure that is told again is
  // ignored. Errors in writing are, too.
  virtual void fail(std::string_view failure) = 0;
};

}  // namespace pleach
