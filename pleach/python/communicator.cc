// Endpoints, communicators and operations, over the C interface of libpleach.so: a process has one
// runtime, whoever else of it is linked with that library. Buffers are addresses here; who calls
// keeps them, and says how large they are.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

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
#include "pleach/python/errors.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// Of one call, so that signals reach Python meanwhile.
constexpr int64_t kWaitSliceMs = 200;

void check(pleach_status status) {
  if (status != PLEACH_OK) {
    raise(status, pleach_last_error());
  }
}

// Calls a function of the C interface without the interpreter's lock.
template <typename Function>
void call(Function function) {
  check(unlocked(function));
}

const char* text_or_null(const std::optional<std::string>& text) {
  return text.has_value() ? text->c_str() : nullptr;
}

template <typename Handle, void (*destroy)(Handle*)>
struct Destroy {
  void operator()(Handle* handle) const {
    const nb::gil_scoped_release released;
    destroy(handle);
  }
};
template <typename Handle, void (*destroy)(Handle*)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;
using OwnedEndpoint = Owned<pleach_endpoint, pleach_endpoint_destroy>;
using OwnedCommunicator = Owned<pleach_communicator, pleach_communicator_destroy>;
using OwnedOperation = Owned<pleach_operation, pleach_operation_destroy>;

class Operation {
 public:
  explicit Operation(pleach_operation* handle) : handle_(handle) {}

  bool test() const {
    int32_t is_done = 0;
    call([&] { return pleach_operation_test(handle_.get(), &is_done); });
    return is_done != 0;
  }

  // False: it goes on after that long; negative: as long as it takes.
  bool wait(int64_t timeout_ms) const {
    for (int64_t left_ms = timeout_ms;; left_ms -= kWaitSliceMs) {
      const bool is_last = timeout_ms >= 0 && left_ms <= kWaitSliceMs;
      const pleach_status status = unlocked(
          [&] { return pleach_operation_wait(handle_.get(), is_last ? left_ms : kWaitSliceMs); });
      if (status == PLEACH_OK) {
        return true;
      }
      if (status != PLEACH_TIMEOUT || test()) {
        // Between the two calls it may have ended, one way or the other.
        check(unlocked([&] { return pleach_operation_wait(handle_.get(), 0); }));
        return true;
      }
      if (is_last) {
        return false;
      }
      if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
      }
    }
  }

  std::tuple<int64_t, int64_t> times_ns() const {
    int64_t started_ns = 0;
    int64_t finished_ns = 0;
    check(pleach_operation_times(handle_.get(), &started_ns, &finished_ns));
    return {started_ns, finished_ns};
  }

  std::tuple<int64_t, int32_t> received() const {
    pleach_received received = {};
    check(pleach_operation_received(handle_.get(), &received));
    return {received.bytes, received.source};
  }

 private:
  OwnedOperation handle_;
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
  explicit PythonCommunicator(pleach_communicator* handle) : handle_(handle) {}

  int32_t rank() const { return pleach_communicator_rank(handle_.get()); }
  int32_t rank_count() const { return pleach_communicator_rank_count(handle_.get()); }

  Operation start(const CollectiveArguments& asked) const {
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
    return started([&](pleach_operation** operation) {
      return pleach_perform(handle_.get(), &request, operation);
    });
  }
  Operation barrier() const {
    return started(
        [&](pleach_operation** operation) { return pleach_barrier(handle_.get(), operation); });
  }
  Operation send(uintptr_t message, int64_t bytes, int32_t target, int32_t tag,
                 int64_t deadline_ms) const {
    const pleach_message_options options = {sizeof options, deadline_ms};
    return started([&](pleach_operation** operation) {
      return pleach_send_with(handle_.get(), pointer(message), bytes, target, tag, &options,
                              operation);
    });
  }
  Operation receive(uintptr_t buffer, int64_t bytes, int32_t source, int32_t tag,
                    int64_t deadline_ms) const {
    const pleach_message_options options = {sizeof options, deadline_ms};
    return started([&](pleach_operation** operation) {
      return pleach_receive_with(handle_.get(), pointer(buffer), bytes, source, tag, &options,
                                 nullptr, operation);
    });
  }

  // None: this rank gave a negative colour.
  std::optional<PythonCommunicator> split(int32_t color, int32_t key) const {
    pleach_communicator* part = nullptr;
    call([&] { return pleach_communicator_split(handle_.get(), color, key, &part); });
    if (part == nullptr) {
      return std::nullopt;
    }
    return PythonCommunicator(part);
  }
  PythonCommunicator shrink() const {
    pleach_communicator* survivors = nullptr;
    call([&] { return pleach_communicator_shrink(handle_.get(), &survivors); });
    return PythonCommunicator(survivors);
  }
  void abort(const std::string& reason) const {
    call([&] { return pleach_communicator_abort(handle_.get(), reason.c_str()); });
  }
  void close() const {
    call([&] { return pleach_communicator_close(handle_.get()); });
  }

 private:
  template <typename Start>
  static Operation started(Start start) {
    pleach_operation* operation = nullptr;
    call([&] { return start(&operation); });
    return Operation(operation);
  }

  OwnedCommunicator handle_;
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
    pleach_endpoint* endpoint = nullptr;
    call([&] { return pleach_endpoint_create(&options, &endpoint); });
    handle_.reset(endpoint);
  }

  int32_t rank() const { return pleach_endpoint_rank(handle_.get()); }
  int32_t rank_count() const { return pleach_endpoint_rank_count(handle_.get()); }
  std::string transport() const { return pleach_endpoint_transport(handle_.get()); }
  void write_flight(const std::string& path) const {
    call([&] { return pleach_endpoint_write_flight(handle_.get(), path.c_str()); });
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
    pleach_communicator* communicator = nullptr;
    call([&] { return pleach_communicator_create(handle_.get(), &options, &communicator); });
    return PythonCommunicator(communicator);
  }

 private:
  OwnedEndpoint handle_;
};

void bind_operation(nb::module_& module) {
  nb::class_<Operation>(module, "Operation")
      .def("test", &Operation::test)
      .def("wait", &Operation::wait, nb::arg("timeout_ms"))
      .def("times_ns", &Operation::times_ns)
      .def("received", &Operation::received);
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
      .def("start", &PythonCommunicator::start, nb::arg("asked"))
      .def("barrier", &PythonCommunicator::barrier)
      .def("send", &PythonCommunicator::send, nb::arg("message"), nb::arg("size_bytes"),
           nb::arg("target"), nb::arg("tag"), nb::arg("deadline_ms"))
      .def("receive", &PythonCommunicator::receive, nb::arg("buffer"), nb::arg("size_bytes"),
           nb::arg("source"), nb::arg("tag"), nb::arg("deadline_ms"))
      .def("split", &PythonCommunicator::split, nb::arg("color"), nb::arg("key"))
      .def("shrink", &PythonCommunicator::shrink)
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
      .def("communicator", &PythonEndpoint::communicator, nb::kw_only(), nb::arg("name"),
           nb::arg("ranks"), nb::arg("landing_places"), nb::arg("place_bytes"), nb::arg("book"));
  module.def(
      "listen",
      [](const std::string& host, int32_t port) {
        int32_t descriptor = -1;
        check(pleach_listen(host.c_str(), &port, &descriptor));
        return std::tuple<int32_t, int32_t>(port, descriptor);
      },
      nb::arg("host"), nb::arg("port"));
}

}  // namespace

void bind_communicator(nb::module_& module) {
  bind_operation(module);
  bind_communicator_class(module);
  bind_endpoint(module);
}

}  // namespace pleach::python
