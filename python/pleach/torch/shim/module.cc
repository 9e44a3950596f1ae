// What Python sees of the shim.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "errors.h"

namespace py = pybind11;

namespace pleach_torch {
namespace {

std::pair<int32_t, int32_t> listen_on(const std::string& host, int32_t port) {
  int32_t descriptor = -1;
  check(pleach_listen(host.c_str(), &port, &descriptor));
  return {port, descriptor};
}

c10::intrusive_ptr<c10d::Backend> create(const std::string& name, int32_t rank, int32_t rank_count,
                                         const std::string& store_host, int32_t store_port,
                                         int32_t listen_descriptor, int64_t timeout_ms,
                                         const std::string& transport, const std::string& book,
                                         int32_t landing_places, int64_t place_bytes,
                                         int64_t chunk_bytes,
                                         const std::vector<uint64_t>& global_ranks) {
  JoinOptions options;
  options.name = name;
  options.rank = rank;
  options.rank_count = rank_count;
  options.store_host = store_host;
  options.store_port = store_port;
  options.listen_descriptor = listen_descriptor;
  options.timeout_ms = timeout_ms;
  options.transport = transport;
  options.book = book;
  options.landing_places = landing_places;
  options.place_bytes = place_bytes;
  options.chunk_bytes = chunk_bytes;
  return c10::make_intrusive<Backend>(Group::join(options), global_ranks);
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
  module.def("listen", &listen_on, py::call_guard<py::gil_scoped_release>());
  module.def("create", &create, py::arg("name"), py::arg("rank"), py::arg("rank_count"),
             py::arg("store_host"), py::arg("store_port"), py::arg("listen_descriptor"),
             py::arg("timeout_ms"), py::arg("transport"), py::arg("book"),
             py::arg("landing_places"), py::arg("place_bytes"), py::arg("chunk_bytes"),
             py::arg("global_ranks"), py::call_guard<py::gil_scoped_release>());
  module.def("transport",
             [](const BackendPointer& backend) { return group_of(backend)->transport(); });
  module.def("options", [](const BackendPointer& backend) {
    const JoinOptions& options = group_of(backend)->options();
    py::dict given;
    given["transport"] = options.transport;
    given["book"] = options.book;
    given["landing_places"] = options.landing_places;
    given["place_bytes"] = options.place_bytes;
    given["chunk_bytes"] = options.chunk_bytes;
    return given;
  });
  module.def("timeout_ms", [](const BackendPointer& backend) {
    return backend->getBackendOptions()->timeout.count();
  });
  module.def(
      "leave_all",
      [](int64_t longest_ms) {
        Group::leave_all();
        return Group::await_left(std::chrono::milliseconds(longest_ms));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def("flight_entries", &flight_entries);
}
