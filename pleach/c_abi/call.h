// What every function of the C interface goes through: nothing is thrown across it, no argument is
// trusted, and what went wrong is the thread's last error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/api/collectives.h"
#include "pleach/api/pleach.h"
#include "pleach/base/collective_kind.h"
#include "pleach/base/interruption.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/endpoint.h"
#include "pleach/runtime/operation.h"

struct pleach_endpoint {
  std::shared_ptr<pleach::Endpoint> endpoint;
};
struct pleach_communicator {
  std::unique_ptr<pleach::Collectives> collectives;
};
struct pleach_operation {
  pleach::Operation operation;
};

namespace pleach::c_abi {

pleach_status status_of(ErrorCode code);
// Keeps the error's message as the thread's last; returns its status. Of one that is OK: that.
pleach_status report(const Status& status) noexcept;
// Of what was thrown.
pleach_status report_thrown() noexcept;

// While it lives, the thread's work asks the function of pleach_set_interrupt(), if there is one.
class Interruptions {
 public:
  Interruptions();

 private:
  std::optional<Interruption> asked_;
};

// An argument that may not be NULL.
struct Needed {
  const void* value = nullptr;
  const char* name = "";
};
// Errors: kInvalidArgument naming the first that is NULL.
Status check_needed(const char* function, std::initializer_list<Needed> needed);

// Runs the body of a function, which returns a Status.
template <typename Body>
pleach_status call(const char* function, std::initializer_list<Needed> needed,
                   const Body& body) noexcept {
  try {
    const Interruptions asked;
    const Status arguments = check_needed(function, needed);
    return report(arguments ? body() : arguments);
  } catch (...) {
    return report_thrown();
  }
}

Result<ElementType> element_type(pleach_type type);
Result<ReduceOp> reduce_op(pleach_reduction reduction);
Result<CollectiveKind> collective_kind(pleach_collective collective);
// None: the type itself.
Result<std::optional<ElementType>> wire_type(pleach_wire wire);
// How long others are waited for; none where it is 0.
//   errors  kInvalidArgument: negative, or more than a year
Result<std::optional<Duration>> deadline(const char* function, int64_t deadline_ms);
// Errors: kInvalidArgument: negative, and not PLEACH_FOREVER.
Result<Duration> timeout(const char* function, int64_t timeout_ms);

// Copies `size` bytes of options, of at least `least`, over `bytes` zeros.
//   errors  kInvalidArgument: size is less; kUnsupported: what is beyond `bytes` is not zero
Status copy_options(const void* given, std::size_t size, void* options, std::size_t bytes,
                    const char* name, std::size_t least);
// Options as this version has them; of NULL, all defaults.
template <typename Options>
Result<Options> complete(const Options* given, const char* name,
                         std::size_t least = sizeof(std::size_t)) {
  Options options;
  std::memset(&options, 0, sizeof(options));
  if (given != nullptr) {
    PLEACH_TRY(copy_options(given, given->size, &options, sizeof(options), name, least));
  }
  return options;
}

// Gives the caller the handle of what has been started.
Status hand_over(const Result<Operation>& started, pleach_operation** operation);

}  // namespace pleach::c_abi
