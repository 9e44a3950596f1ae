// Operations in flight, and the arrays that the library reads and writes meanwhile.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "pleach/python/c_calls.h"

namespace pleach::python {

// An operation. It keeps its arrays from before its start until it is done, whatever becomes of
// those who asked for it.
struct Flight {
  // Nothing is read or written any more.
  void land();

  OwnedOperation handle;  // null: not started yet, or the interpreter ends
  nanobind::object input;
  nanobind::object output;
  bool has_landed = false;
};

// Those of a communicator. The interpreter's lock is held in all that is called here.
class Flights {
 public:
  // Notes an operation that is about to start.
  std::shared_ptr<Flight> add(nanobind::object input, nanobind::object output);
  // Forgets those that are done.
  void sweep();
  bool is_empty() const { return flights_.empty(); }
  // Input and output of each.
  using Arrays =
      nanobind::typed<nanobind::list,
                      nanobind::typed<nanobind::tuple, nanobind::object, nanobind::object>>;
  Arrays arrays() const;
  // Waits until all are done, at most so long.
  void drain(std::chrono::milliseconds wait);
  // The communicator is gone, and all that was in flight with it.
  void land_all();

 private:
  std::vector<std::shared_ptr<Flight>> flights_;
};

// A started operation, as Python holds it.
class Operation {
 public:
  explicit Operation(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}

  bool test() const;
  // False: it goes on after that long; negative: as long as it takes.
  bool wait(int64_t timeout_ms) const;
  std::tuple<int64_t, int64_t> times_ns() const;
  // Bytes, source.
  std::tuple<int64_t, int32_t> received() const;

 private:
  pleach_operation* handle() const;

  std::shared_ptr<Flight> flight_;
};

}  // namespace pleach::python
