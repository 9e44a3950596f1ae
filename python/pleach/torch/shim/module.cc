// What Python sees of the shim.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "carrier.h"
#include "ending.h"
#include "errors.h"
#include "signals.h"

namespace py = pybind11;

namespace pleach_torch {
namespace {

std::pair<int32_t, int32_t> listen_on(const std::string& host, int32_t port) {
  int32_t descriptor = -1;
  check(pleach_listen(host.c_str(), &port, &descriptor));
  return {port, descriptor};
}

// Carriers that a process group may share, kept alive while its ranks agree.
using Held = std::vector<std::shared_ptr<Carrier>>;

c10::intrusive_ptr<c10d::Backend> create(const JoinOptions& options, const Held& held,
                                         std::vector<uint64_t> global_ranks) {
  return c10::make_intrusive<Backend>(Group::join(options, held), std::move(global_ranks));
}

const std::shared_ptr<Group>& group_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  const auto* const ours = dynamic_cast<const Backend*>(backend.get());
  TORCH_CHECK_TYPE(ours != nullptr, "the backend is ", backend->getBackendName(), ", not pleach");
  return ours->group();
}

const char* name_of(FlightState state) {
  switch (state) {
    case FlightState::kStarted:
      return "started";
    case FlightState::kCompleted:
      return "completed";
    case FlightState::kFailed:
      return "failed";
  }
  return "";
}

py::dict as_dict(const FlightRecord& record) {
  const auto types = [](const std::vector<at::ScalarType>& all) {
    py::list names;
    for (const at::ScalarType type : all) {
      names.append(c10::toString(type));
    }
    return names;
  };
  py::dict entry;
  entry["record_id"] = record.number;
  entry["group"] = record.group;
  entry["name"] = record.name;
  entry["peer"] = record.peer;
  entry["is_p2p"] = record.is_message;
  entry["collective_seq_id"] = record.collective_sequence;
  entry["p2p_seq_id"] = record.message_sequence;
  entry["input_sizes"] = record.input_sizes;
  entry["output_sizes"] = record.output_sizes;
  entry["input_dtypes"] = types(record.input_types);
  entry["output_dtypes"] = types(record.output_types);
  entry["time_created_ns"] = record.created_ns;
  entry["time_ended_ns"] = record.ended_ns;
  entry["timeout_ms"] = record.timeout_ms;
  entry["state"] = name_of(record.state);
  entry["retired"] = record.is_retired;
  return entry;
}

void run_signal_handlers() {
  if (Py_IsInitialized() == 0) {
    return;
  }
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

py::list flight_entries() {
  py::list entries;
  for (const FlightRecord& record : FlightRing::of_process().records()) {
    entries.append(as_dict(record));
  }
  return entries;
}

}  // namespace
}  // namespace pleach_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace pleach_torch;
  using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
  // After its end Python says of every thread that it holds the lock.
  set_lock_check([] { return Py_IsInitialized() != 0 && PyGILState_Check() != 0; });
  set_signal_check(&run_signal_handlers);
  py::class_<CarrierKey>(module, "CarrierKey")
      .def(py::init([](std::vector<uint64_t> ranks, int64_t timeout_ms, std::string transport) {
        return CarrierKey{std::move(ranks), timeout_ms, std::move(transport)};
      }));
  py::class_<CarrierPlace>(module, "CarrierPlace")
      .def(py::init([](std::string name, std::string job, int32_t rank, std::string store_host,
                       int32_t store_port, int32_t listen_descriptor, std::string flight_folder) {
        return CarrierPlace{std::move(name),         std::move(job), rank,
                            std::move(store_host),   store_port,     listen_descriptor,
                            std::move(flight_folder)};
      }));
  py::class_<JoinOptions>(module, "JoinOptions")
      .def(py::init<>())
      .def_readwrite("name", &JoinOptions::name)
      .def_readwrite("rank", &JoinOptions::rank)
      .def_readwrite("carrier", &JoinOptions::carrier)
      .def_readwrite("place", &JoinOptions::place)
      .def_readwrite("shared", &JoinOptions::shared)
      .def_readwrite("book", &JoinOptions::book)
      .def_readwrite("landing_places", &JoinOptions::landing_places)
      .def_readwrite("place_bytes", &JoinOptions::place_bytes)
      .def_readwrite("chunk_bytes", &JoinOptions::chunk_bytes);
  struct HeldCarriers {
    Held carriers;
  };
  py::class_<HeldCarriers>(module, "HeldCarriers")
      .def_property_readonly("names", [](const HeldCarriers& held) {
        std::vector<std::string> names;
        for (const auto& carrier : held.carriers) {
          names.push_back(carrier->name());
        }
        return names;
      });
  module.def("hold_carriers",
             [](const CarrierKey& key) { return HeldCarriers{Carrier::find(key)}; });
  module.def("listen", &listen_on, py::call_guard<py::gil_scoped_release>());
  module.def(
      "create",
      [](const JoinOptions& options, const HeldCarriers& held, std::vector<uint64_t> ranks) {
        return create(options, held.carriers, std::move(ranks));
      },
      py::arg("options"), py::arg("held"), py::arg("global_ranks"),
      py::call_guard<py::gil_scoped_release>());
  module.def("transport",
             [](const BackendPointer& backend) { return group_of(backend)->transport(); });
  module.def("options", [](const BackendPointer& backend) {
    const JoinOptions& options = group_of(backend)->options();
    py::dict given;
    given["transport"] = options.carrier.transport;
    given["book"] = options.book;
    given["landing_places"] = options.landing_places;
    given["place_bytes"] = options.place_bytes;
    given["chunk_bytes"] = options.chunk_bytes;
    return given;
  });
  module.def("timeout_ms", [](const BackendPointer& backend) {
    return backend->getBackendOptions()->timeout.count();
  });
  module.def("end_process", &Group::end_process, py::call_guard<py::gil_scoped_release>());
  module.def("flight_entries", &flight_entries);
}
