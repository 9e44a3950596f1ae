// Endpoints and communicators, over the C interface of libpleach.so: a process has one runtime,
// whoever else of it is linked with that library. Buffers are addresses here, beside the arrays
// that they are of; who calls says how large they are.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/api/pleach.h"
#include "pleach/base/collective_kind.h"
#include "pleach/python/bindings.h"
#include "pleach/python/c_calls.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"
#include "pleach/python/operation.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// When the interpreter ends, operations that all ranks have started may still come to their end
// for so long, and threads in calls have as long to leave them.
constexpr std::chrono::milliseconds kGrace{300};
// The whole of it, where the rank leaves with open communicators.
constexpr std::chrono::milliseconds kLongestFarewell{900};
// Time in which an aborted operation must end: as soon as the news of it has come.
constexpr std::chrono::milliseconds kLongestEnd{2000};

const char* text_or_null(const std::optional<std::string>& text) {
  return text.has_value() ? text->c_str() : nullptr;
}

// All there are in the process; the interpreter's lock guards it.
template <typename Held>
class Living {
 public:
  static Living& present() {
    static Living* const process = new Living;  // NOLINT(cppcoreguidelines-owning-memory)
    return *process;
  }
  void add(const std::shared_ptr<Held>& one) {
    std::erase_if(all_, [](const auto& other) { return other.expired(); });
    all_.push_back(one);
  }
  std::vector<std::shared_ptr<Held>> all() const {
    std::vector<std::shared_ptr<Held>> living;
    for (const auto& one : all_) {
      if (auto held = one.lock()) {
        living.push_back(std::move(held));
      }
    }
    return living;
  }

 private:
  std::vector<std::weak_ptr<Held>> all_;
};

// A communicator of libpleach.so, and what is in flight over it.
struct CommunicatorState {
  CommunicatorState() = default;
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;
  ~CommunicatorState() {
    flights.sweep();
    if (!flights.is_empty()) {
      end_job("let go of a communicator in use");
    }
    end();
  }

  // Ends it on all ranks, which are told that this one did that. Raises nothing.
  void end_job(const std::string& what) {
    if (handle.is_open()) {
      const SharedCommunicator::Use used(handle);
      const std::string reason = fmt::format("rank {} {}", pleach_communicator_rank(used), what);
      const Unlocked unlocked;
      pleach_communicator_abort(used, reason.c_str());
    }
  }
  // Ends what is in flight, and only then lets go of the arrays.
  void end() {
    OwnedCommunicator(handle.end()).reset();
    flights.drain(kLongestEnd);
    flights.land_all();
  }

  SharedCommunicator handle;
  Flights flights;
};

// What a collective is asked to do; addresses 0 are none.
struct CollectiveArguments {
  std::string collective;
  std::string type;
  std::string reduction;
  bool wire_float32;
  int32_t root;
  uintptr_t input;
  uintptr_t output;
  int64_t count;
  std::optional<std::vector<int64_t>> counts;
  std::optional<std::vector<int64_t>> receive_counts;
  int32_t piece_count;
};

void* pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

class PythonCommunicator {
 public:
  // Makes the handle by `make`, which waits for other ranks.
  template <typename Make>
  static std::optional<PythonCommunicator> made(const Make& make) {
    auto state = std::make_shared<CommunicatorState>();
    call_and_wait([&] {
      pleach_communicator* handle = nullptr;
      const pleach_status status = make(&handle);
      state->handle.set(handle);
      return status;
    });
    if (!state->handle.is_open()) {
      return std::nullopt;
    }
    Living<CommunicatorState>::present().add(state);
    return PythonCommunicator(std::move(state));
  }

  int32_t rank() const { return pleach_communicator_rank(use()); }
  int32_t rank_count() const { return pleach_communicator_rank_count(use()); }

  Operation start(const CollectiveArguments& asked, nb::object input, nb::object output) const {
    pleach_request request = {};
    request.size = sizeof request;
    request.collective = static_cast<int32_t>(take(parse_collective(asked.collective)));
    request.type = static_cast<int32_t>(take(parse_element_type(asked.type)));
    request.reduction = static_cast<int32_t>(take(parse_reduce_op(asked.reduction)));
    request.wire = asked.wire_float32 ? PLEACH_WIRE_FLOAT32 : PLEACH_WIRE_TYPE;
    request.root = asked.root;
    request.piece_count = asked.piece_count;
    request.input = pointer(asked.input);
    request.output = pointer(asked.output);
    request.count = asked.count;
    request.counts = asked.counts.has_value() ? asked.counts->data() : nullptr;
    request.receive_counts =
        asked.receive_counts.has_value() ? asked.receive_counts->data() : nullptr;
    return started(std::move(input), std::move(output),
                   [&](pleach_communicator* communicator, pleach_operation** operation) {
                     return pleach_perform(communicator, &request, operation);
                   });
  }
  Operation barrier() const { return started(nb::none(), nb::none(), pleach_barrier); }
  Operation send(uintptr_t message, int64_t bytes, int32_t target, int32_t tag, int64_t deadline_ms,
                 nb::object kept) const {
    const pleach_message_options options = {sizeof options, deadline_ms};
    return started(std::move(kept), nb::none(),
                   [&](pleach_communicator* communicator, pleach_operation** operation) {
                     return pleach_send_with(communicator, pointer(message), bytes, target, tag,
                                             &options, operation);
                   });
  }
  Operation receive(uintptr_t buffer, int64_t bytes, int32_t source, int32_t tag,
                    int64_t deadline_ms, nb::object kept) const {
    const pleach_message_options options = {sizeof options, deadline_ms};
    return started(nb::none(), std::move(kept),
                   [&](pleach_communicator* communicator, pleach_operation** operation) {
                     return pleach_receive_with(communicator, pointer(buffer), bytes, source, tag,
                                                &options, nullptr, operation);
                   });
  }

  // None: this rank gave a negative colour.
  std::optional<PythonCommunicator> split(int32_t color, int32_t key) const {
    const Use whole = use();
    return made([&](pleach_communicator** part) {
      return pleach_communicator_split(whole, color, key, part);
    });
  }
  PythonCommunicator shrink() const {
    const Use whole = use();
    return *made([&](pleach_communicator** survivors) {
      return pleach_communicator_shrink(whole, survivors);
    });
  }
  void close() const {
    const Use whole = use();
    call_and_wait([&] { return pleach_communicator_close(whole); });
  }
  Flights::Arrays in_flight() const {
    state_->flights.sweep();
    return state_->flights.arrays();
  }
  // Gives what is in flight a little time to end. Then it ends, on all ranks, which are told what
  // this one did.
  void abandon(const std::string& what, bool may_end) const {
    if (may_end) {
      state_->flights.drain(kGrace);
    }
    state_->end_job(what);
    state_->end();
  }
  // Ends what is in flight or waited for, on all ranks.
  void abort(const std::string& reason) const {
    const Use whole = use();
    call_briefly([&] { return pleach_communicator_abort(whole, reason.c_str()); });
  }

 private:
  explicit PythonCommunicator(std::shared_ptr<CommunicatorState> state)
      : state_(std::move(state)) {}

  using Use = SharedCommunicator::Use;

  Use use() const {
    if (!state_->handle.is_open()) {
      raise(invalid("the communicator is closed: this rank has left it"));
    }
    return Use(state_->handle);
  }
  // The arrays are kept before anything starts: nothing that is raised in between lets go of them.
  template <typename Start>
  Operation started(nb::object input, nb::object output, const Start& start) const {
    const Use communicator = use();
    const std::shared_ptr<Flight> flight = state_->flights.add(std::move(input), std::move(output));
    const auto begin = [&] {
      pleach_operation* operation = nullptr;
      const pleach_status status = start(communicator, &operation);
      flight->handle = OwnedOperation(operation);
      flight->has_landed = operation == nullptr;
      return status;
    };
    call_briefly(begin);
    return Operation(flight);
  }

  std::shared_ptr<CommunicatorState> state_;
};

struct EndpointArguments {
  int32_t rank_count;
  int32_t rank;
  std::optional<std::string> store_host;
  int32_t store_port;
  int32_t listen_descriptor;
  std::optional<std::string> job;
  std::optional<std::string> secret;
  std::optional<std::string> transport;
  int64_t deadline_ms;
};

class PythonEndpoint {
 public:
  explicit PythonEndpoint(const EndpointArguments& given) {
    pleach_endpoint_options options = {};
    options.size = sizeof options;
    options.rank_count = given.rank_count;
    options.rank = given.rank;
    options.store_host = text_or_null(given.store_host);
    options.store_port = given.store_port;
    options.listen_descriptor = given.listen_descriptor;
    options.job = text_or_null(given.job);
    options.secret = text_or_null(given.secret);
    options.transport = text_or_null(given.transport);
    options.deadline_ms = given.deadline_ms;
    call_and_wait([&] {
      pleach_endpoint* endpoint = nullptr;
      const pleach_status status = pleach_endpoint_create(&options, &endpoint);
      handle_->set(endpoint);
      return status;
    });
    Living<SharedEndpoint>::present().add(handle_);
  }

  int32_t rank() const { return pleach_endpoint_rank(use()); }
  int32_t rank_count() const { return pleach_endpoint_rank_count(use()); }
  std::string transport() const { return pleach_endpoint_transport(use()); }
  void write_flight(const std::string& path) const {
    const SharedEndpoint::Use endpoint = use();
    call_briefly([&] { return pleach_endpoint_write_flight(endpoint, path.c_str()); });
  }
  // Leaves the job, where nothing else of the process is of it.
  void close() const {
    pleach_endpoint* const endpoint = handle_->end();
    call_and_wait([&] {
      pleach_endpoint_destroy(endpoint);
      return PLEACH_OK;
    });
  }

  PythonCommunicator communicator(const std::optional<std::string>& name,
                                  const std::optional<std::vector<int32_t>>& ranks,
                                  int32_t landing_places, int64_t place_bytes,
                                  const std::optional<std::string>& book) const {
    pleach_communicator_options options = {};
    options.size = sizeof options;
    options.name = text_or_null(name);
    if (ranks.has_value()) {
      options.ranks = ranks->data();
      options.rank_count = static_cast<int32_t>(ranks->size());
    }
    options.landing_places = landing_places;
    options.place_bytes = place_bytes;
    options.book = text_or_null(book);
    const SharedEndpoint::Use endpoint = use();
    return *PythonCommunicator::made([&](pleach_communicator** communicator) {
      return pleach_communicator_create(endpoint, &options, communicator);
    });
  }

 private:
  SharedEndpoint::Use use() const {
    if (!handle_->is_open()) {
      raise(invalid("the endpoint is closed"));
    }
    return SharedEndpoint::Use(*handle_);
  }

  std::shared_ptr<SharedEndpoint> handle_ = std::make_shared<SharedEndpoint>();
};

// While it lives, what waits for other ranks waits no longer than until then.
class Farewell {
 public:
  explicit Farewell(std::chrono::milliseconds wait)
      : end_(std::chrono::steady_clock::now() + wait) {
    pleach_set_interrupt(is_over, this);
  }
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;
  ~Farewell() { pleach_set_interrupt(nullptr, nullptr); }

 private:
  static int32_t is_over(void* context) {
    return std::chrono::steady_clock::now() >= static_cast<Farewell*>(context)->end_ ? 1 : 0;
  }

  const std::chrono::steady_clock::time_point end_;
};

// Before the interpreter ends: what is in flight may come to its end, then this rank leaves its
// jobs, whatever others of its threads do, and nothing of the library calls Python any more.
void end_process() {
  Ending& ending = Ending::present();
  ending.begin();
  const auto communicators = Living<CommunicatorState>::present().all();
  // A rank that has closed all of them serves others until they have left, too.
  const auto farewell =
      communicators.empty() ? nullptr : std::make_unique<Farewell>(kLongestFarewell);
  const auto until = std::chrono::steady_clock::now() + kGrace;
  for (const auto& state : communicators) {
    const auto left = until - std::chrono::steady_clock::now();
    state->flights.drain(std::chrono::ceil<std::chrono::milliseconds>(left));
    if (!state->flights.is_empty()) {
      state->end_job("ended with work in flight");
    }
  }
  const auto endpoints = Living<SharedEndpoint>::present().all();
  bool has_left = false;
  {
    const Unlocked unlocked;
    has_left = ending.wait_until_left(kGrace);
  }
  if (!has_left) {
    // Handles that are in use until the process is gone are never destroyed.
    static_cast<void>(new auto(communicators));  // NOLINT(cppcoreguidelines-owning-memory)
    static_cast<void>(new auto(endpoints));      // NOLINT(cppcoreguidelines-owning-memory)
    return;
  }
  for (const auto& state : communicators) {
    state->end();
  }
  for (const auto& endpoint : endpoints) {
    OwnedEndpoint(endpoint->end()).reset();
  }
}

void bind_communicator_class(nb::module_& module) {
  nb::class_<CollectiveArguments>(module, "CollectiveArguments")
      .def(nb::init<std::string, std::string, std::string, bool, int32_t, uintptr_t, uintptr_t,
                    int64_t, std::optional<std::vector<int64_t>>,
                    std::optional<std::vector<int64_t>>, int32_t>(),
           nb::kw_only(), nb::arg("collective"), nb::arg("type"), nb::arg("reduction"),
           nb::arg("wire_float32"), nb::arg("root"), nb::arg("input"), nb::arg("output"),
           nb::arg("count"), nb::arg("counts"), nb::arg("receive_counts"), nb::arg("piece_count"));
  nb::class_<PythonCommunicator>(module, "Communicator")
      .def_prop_ro("rank", &PythonCommunicator::rank)
      .def_prop_ro("rank_count", &PythonCommunicator::rank_count)
      .def("start", &PythonCommunicator::start, nb::arg("asked"), nb::arg("input").none(),
           nb::arg("output").none())
      .def("barrier", &PythonCommunicator::barrier)
      .def("send", &PythonCommunicator::send, nb::arg("message"), nb::arg("size_bytes"),
           nb::arg("target"), nb::arg("tag"), nb::arg("deadline_ms"), nb::arg("kept"))
      .def("receive", &PythonCommunicator::receive, nb::arg("buffer"), nb::arg("size_bytes"),
           nb::arg("source"), nb::arg("tag"), nb::arg("deadline_ms"), nb::arg("kept"))
      .def("split", &PythonCommunicator::split, nb::arg("color"), nb::arg("key"))
      .def("shrink", &PythonCommunicator::shrink)
      .def("in_flight", &PythonCommunicator::in_flight)
      .def("abandon", &PythonCommunicator::abandon, nb::arg("what"), nb::arg("may_end"))
      .def("abort", &PythonCommunicator::abort, nb::arg("reason"))
      .def("close", &PythonCommunicator::close);
}

void bind_endpoint(nb::module_& module) {
  nb::class_<EndpointArguments>(module, "EndpointArguments")
      .def(nb::init<int32_t, int32_t, std::optional<std::string>, int32_t, int32_t,
                    std::optional<std::string>, std::optional<std::string>,
                    std::optional<std::string>, int64_t>(),
           nb::kw_only(), nb::arg("rank_count"), nb::arg("rank"), nb::arg("store_host"),
           nb::arg("store_port"), nb::arg("listen_descriptor"), nb::arg("job"), nb::arg("secret"),
           nb::arg("transport"), nb::arg("deadline_ms"));
  nb::class_<PythonEndpoint>(module, "Endpoint")
      .def(nb::init<const EndpointArguments&>(), nb::arg("given"))
      .def_prop_ro("rank", &PythonEndpoint::rank)
      .def_prop_ro("rank_count", &PythonEndpoint::rank_count)
      .def_prop_ro("transport", &PythonEndpoint::transport)
      .def("write_flight", &PythonEndpoint::write_flight, nb::arg("path"))
      .def("close", &PythonEndpoint::close)
      .def("communicator", &PythonEndpoint::communicator, nb::kw_only(), nb::arg("name"),
           nb::arg("ranks"), nb::arg("landing_places"), nb::arg("place_bytes"), nb::arg("book"));
  module.def(
      "listen",
      [](const std::string& host, int32_t port) {
        int32_t descriptor = -1;
        call_and_wait([&] { return pleach_listen(host.c_str(), &port, &descriptor); });
        return std::tuple<int32_t, int32_t>(port, descriptor);
      },
      nb::arg("host"), nb::arg("port"));
  module.def("end_process", end_process);
  module.def("forget_calls", [] { Ending::present().forget(); });
}

}  // namespace

void bind_communicator(nb::module_& module) {
  bind_communicator_class(module);
  bind_endpoint(module);
}

}  // namespace pleach::python
