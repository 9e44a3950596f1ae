#include "pleach/python/operation.h"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <utility>

#include "pleach/base/result.h"
#include "pleach/python/bindings.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// The longest wait of one call, so that signals reach Python meanwhile.
constexpr int64_t kWaitSliceMs = 100;

bool is_done(pleach_operation* operation) {
  int32_t done = 0;
  // An error is an operation of the process that forked this one: nothing will come of it here.
  return pleach_operation_test(operation, &done) != PLEACH_OK || done != 0;
}

}  // namespace

void Flight::land() {
  has_landed = true;
  input.reset();
  output.reset();
}

std::shared_ptr<Flight> Flights::add(nb::object input, nb::object output) {
  sweep();
  return flights_.emplace_back(
      std::make_shared<Flight>(Flight{{}, std::move(input), std::move(output)}));
}

void Flights::sweep() {
  std::vector<std::shared_ptr<Flight>> flying;
  for (const auto& flight : flights_) {
    if (!flight->has_landed && flight->handle != nullptr) {
      flying.push_back(flight);
    }
  }
  if (!flying.empty()) {
    const Unlocked unlocked;
    std::erase_if(flying, [](const auto& flight) { return !is_done(flight->handle.get()); });
  }
  for (const auto& flight : flying) {
    flight->land();
  }
  std::erase_if(flights_, [](const auto& flight) { return flight->has_landed; });
}

Flights::Arrays Flights::arrays() const {
  Arrays arrays;
  for (const auto& flight : flights_) {
    arrays.append(nb::make_tuple(flight->input, flight->output));
  }
  return arrays;
}

void Flights::drain(std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  const std::vector<std::shared_ptr<Flight>> flying = flights_;
  for (const auto& flight : flying) {
    if (flight->handle != nullptr) {
      const Unlocked unlocked;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pleach_operation_wait(flight->handle.get(), std::max<int64_t>(0, left.count()));
    }
  }
  sweep();
}

void Flights::land_all() {
  for (const auto& flight : std::exchange(flights_, {})) {
    flight->land();
  }
}

pleach_operation* Operation::handle() const {
  if (flight_->handle == nullptr) {
    raise(invalid("the operation is gone: the interpreter ends"));
  }
  return flight_->handle.get();
}

bool Operation::test() const {
  int32_t done = 0;
  pleach_operation* const operation = handle();
  call_briefly([&] { return pleach_operation_test(operation, &done); });
  if (done != 0) {
    flight_->land();
  }
  return done != 0;
}

bool Operation::wait(int64_t timeout_ms) const {
  pleach_operation* const operation = handle();
  for (int64_t left_ms = timeout_ms;; left_ms -= kWaitSliceMs) {
    const bool is_last = timeout_ms >= 0 && left_ms <= kWaitSliceMs;
    const auto wait = [&](int64_t wait_ms) {
      return unlocked_briefly([&] { return pleach_operation_wait(operation, wait_ms); });
    };
    const pleach_status status = wait(is_last ? left_ms : kWaitSliceMs);
    if (status != PLEACH_TIMEOUT || test()) {
      // Between the two calls it may have ended, one way or the other.
      const pleach_status ended = status == PLEACH_TIMEOUT ? wait(0) : status;
      const std::string why = ended == PLEACH_OK ? "" : pleach_last_error();
      flight_->land();
      if (ended != PLEACH_OK) {
        raise(ended, why);
      }
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

std::tuple<int64_t, int64_t> Operation::times_ns() const {
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
  pleach_operation* const operation = handle();
  call_briefly([&] { return pleach_operation_times(operation, &started_ns, &finished_ns); });
  return {started_ns, finished_ns};
}

std::tuple<int64_t, int32_t> Operation::received() const {
  pleach_received received = {};
  pleach_operation* const operation = handle();
  call_briefly([&] { return pleach_operation_received(operation, &received); });
  return {received.bytes, received.source};
}

void bind_operation(nb::module_& module) {
  nb::class_<Operation>(module, "Operation")
      .def("test", &Operation::test)
      .def("wait", &Operation::wait, nb::arg("timeout_ms"))
      .def("times_ns", &Operation::times_ns)
      .def("received", &Operation::received);
}

}  // namespace pleach::python
