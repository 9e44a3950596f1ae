#include "request.h"

#include <numeric>

namespace pleach_torch {
namespace {

// Whether each part is its rank's place in the whole, which lies end to end.
bool are_in_place(const Tensors& wholes, const Tensors& parts, int rank) {
  if (wholes.empty() || wholes.size() != parts.size() || !are_adjacent(wholes)) {
    return false;
  }
  for (size_t index = 0; index < parts.size(); ++index) {
    const auto* whole = static_cast<const std::byte*>(wholes[index].const_data_ptr());
    if (!parts[index].is_contiguous() ||
        parts[index].const_data_ptr() != whole + rank * parts[index].nbytes()) {
      return false;
    }
  }
  return true;
}

}  // namespace

Request::Request(c10d::OpType kind, const char* name, Member its_member) : member(its_member) {
  task.kind = kind;
  task.name = name;
  asked.size = sizeof asked;
}

void Request::reduce_by(const c10d::ReduceOp& op, const char* what) {
  const Reduction found = reduction_of(from[0].scalar_type(), op, what);
  asked.reduction = found.reduction;
  reduced = found.elements;
}

void Request::place() {
  const Tensors& wholes = asked.collective == PLEACH_ALL_GATHER ? to : from;
  const Tensors& parts = asked.collective == PLEACH_ALL_GATHER ? from : to;
  Flat input;
  Flat output;
  if (asked.piece_count > 0 && are_in_place(wholes, parts, member.rank)) {
    input = output = flat_input(wholes);
  } else if (is_one_buffer) {
    input = output = to.empty() ? flat_input(from) : flat_in_place(to, task.landings);
  } else {
    if (!from.empty()) {
      input = flat_input(from);
    }
    if (!to.empty()) {
      output = flat_output(to, task.landings);
    }
    if (!from.empty() && !to.empty()) {
      separate(input, output, size_before(), from);
    }
  }
  asked.input = input.data;
  asked.output = output.data;
  task.kept = {input.memory, output.memory};
}

int64_t Request::size_before() const {
  if (asked.collective == PLEACH_ALL_TO_ALL) {
    return counts == receive_counts ? 0
                                    : -1;  // each rank sends to each what it receives from there
  }
  if (asked.piece_count > 0) {
    return -1;
  }
  return counts.empty() ? member.rank * asked.count
                        : std::accumulate(counts.begin(), counts.begin() + member.rank, int64_t{0});
}

void Request::scale() {
  const Elements elements =
      message ? Elements{PLEACH_UINT8, static_cast<int64_t>(c10::elementSize(type()))}
              : reduced.value_or(moved_elements(type()));
  asked.type = elements.type;
  asked.count *= elements.per_element;
  for (std::vector<int64_t>* list : {&counts, &receive_counts}) {
    for (int64_t& count : *list) {
      count *= elements.per_element;
    }
  }
  asked.counts = counts.empty() ? nullptr : counts.data();
  asked.receive_counts = receive_counts.empty() ? nullptr : receive_counts.data();
}

pleach_status Request::perform(pleach_communicator* communicator,
                               pleach_operation** operation) const {
  if (!message) {
    return pleach_perform(communicator, &asked, operation);
  }
  pleach_message_options options = {};
  options.size = sizeof options;
  options.deadline_ms = asked.deadline_ms;
  return to.empty() ? pleach_send_with(communicator, asked.input, asked.count, message->peer,
                                       message->tag, &options, operation)
                    : pleach_receive_with(communicator, asked.output, asked.count, message->peer,
                                          message->tag, &options, nullptr, operation);
}

}  // namespace pleach_torch
