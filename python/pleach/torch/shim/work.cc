#include "work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "completions.h"
#include "ending.h"
#include "errors.h"
#include "signals.h"

namespace pleach_torch {
namespace {

using Future = c10::ivalue::Future;
using std::chrono::milliseconds;

// The title in profiles: "pleach:all_reduce".
std::string title_of(const Task& task) {
  return std::string("pleach:") + task.name;
}

Tensors joined(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

FlightRecord record_of(const Task& task, const Group& group, uint64_t sequence) {
  FlightRecord record;
  record.group = group.name();
  record.name = task.name;
  record.peer = task.peer;
  record.is_message = task.is_message;
  (task.is_message ? record.message_sequence : record.collective_sequence) = sequence;
  const Tensors outputs = joined(task.outputs);
  record.input_sizes = sizes_of(task.inputs);
  record.output_sizes = sizes_of(outputs);
  record.input_types = types_of(task.inputs);
  record.output_types = types_of(outputs);
  record.timeout_ms = task.timeout.count();
  return record;
}

// An operation that starts when those before it have.
class LaterJob final : public Job {
 public:
  LaterJob(c10::intrusive_ptr<Work> work, Ask ask, milliseconds patience)
      : Job(patience), work_(std::move(work)), ask_(std::move(ask)) {
    work_->group().note_begun();
  }
  ~LaterJob() override { work_->group().note_done(); }

  bool advance(bool may_start, LaneMeans& /*means*/) override {
    if (may_start && !has_started_) {
      has_started_ = true;
      try {
        work_->start(ask_);
      } catch (const std::exception& error) {  // It has been told how it ended.
        work_->group().abort(said_by(error));  // Nothing may take its place on the wire.
      }
    }
    return false;
  }
  bool has_started() const override { return has_started_; }
  bool has_ended() const override { return has_started_; }
  bool is_over() const override { return has_started_; }
  void fail(const std::exception_ptr& why) override {
    if (!has_started_) {
      has_started_ = true;
      work_->end(why, nullptr);
    }
  }
  void expire() override { fail(work_->break_off(kHeldUp)); }

 private:
  const c10::intrusive_ptr<Work> work_;
  const Ask ask_;
  bool has_started_ = false;
};

}  // namespace

Work::Work(std::shared_ptr<Group> group, Task task, uint64_t sequence)
    : c10d::Work(group->rank(), task.kind, title_of(task).c_str(), task.inputs),
      group_(std::move(group)),
      task_(std::move(task)),
      sequence_(sequence),
      flight_(FlightRing::of_process().begin(record_of(task_, *group_, sequence))) {}

Work::~Work() = default;

c10::intrusive_ptr<Work> Work::begin(std::shared_ptr<Group> group, Task task, uint64_t sequence,
                                     const Ask& ask) {
  const Call call;
  group->communicator();  // refused where it has been left
  const std::shared_ptr<Lane> lane = group->lane(task.is_message);
  const bool runs = !task.is_async && !task.is_message;
  auto work = c10::make_intrusive<Work>(std::move(group), std::move(task), sequence);
  if (lane->has_waiting()) {
    const milliseconds patience = work->task_.timeout;
    if (!runs) {
      work->is_queued_ = true;
      lane->add(std::make_shared<LaterJob>(work, ask, patience));
      return work;
    }
    // It may not overtake them: on other ranks it has not.
    if (!lane->await_started(std::chrono::steady_clock::now() + patience)) {
      work->end(work->break_off(kHeldUp), nullptr);
      std::rethrow_exception(work->exception_);
    }
  }
  runs ? work->run(ask) : work->start(ask);
  return work;
}

c10::intrusive_ptr<Work> Work::begin_staged(std::shared_ptr<Group> group, Task task,
                                            uint64_t sequence,
                                            const std::shared_ptr<Request>& request) {
  const Call call;
  group->communicator();  // refused where it has been left
  const std::shared_ptr<Lane> lane = group->lane(task.is_message);
  auto work = c10::make_intrusive<Work>(std::move(group), std::move(task), sequence);
  work->is_queued_ = true;
  try {
    lane->add(stage(work, request, work->group_->chunk_bytes(), work->task_.timeout));
  } catch (...) {
    work->end(std::current_exception(), nullptr);
    throw;
  }
  return work;
}

// As the caller waits anyway nothing else has to hear of it, and nobody has to be woken.
void Work::run(const Ask& ask) {
  const Interruptible interruptible;
  const pleach_status status = ask(group_->communicator().get(), nullptr);
  finish(status, status == PLEACH_OK ? "" : pleach_last_error());
  interruptible.check();
  if (exception_) {
    std::rethrow_exception(exception_);
  }
}

void Work::start(const Ask& ask) {
  pleach_operation* started = nullptr;
  const pleach_status status = ask(group_->handle().get(), &started);
  if (status != PLEACH_OK) {
    finish(status, pleach_last_error());
    std::rethrow_exception(exception_);
  }
  const Operation operation(started, &pleach_operation_destroy);
  {
    const std::scoped_lock lock(mutex_);
    run_.operation = operation;
  }
  group_->note_begun();
  // It keeps itself until it is done, whether somebody else does or not.
  c10::raw::intrusive_ptr::incref(this);
  check(pleach_operation_on_done(started, &Work::called_back, this));
}

void Work::called_back(void* work, pleach_status status, const char* error) {
  const Callback callback;
  if (!callback) {
    return;  // it keeps itself, and its tensors, to the end of the process
  }
  auto self = c10::intrusive_ptr<Work>::reclaim(static_cast<Work*>(work));
  const std::shared_ptr<Group> group = self->group_;
  self->finish(status, error);
  self.reset();
  group->note_done();
}

Work::Operation Work::operation() const {
  const std::scoped_lock lock(mutex_);
  return run_.operation;
}

void Work::finish(pleach_status status, const char* error) {
  std::exception_ptr exception;
  const Operation operation = this->operation();
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
  if (operation != nullptr &&
      pleach_operation_times(operation.get(), &started_ns, &finished_ns) == PLEACH_OK) {
    run_.duration_ns = finished_ns - started_ns;
  }
  if (status != PLEACH_OK) {
    exception = failure(text() + ": " + error);
    group_->note_failed();
  } else {
    pleach_received received = {};
    if (operation != nullptr && task_.is_message &&
        pleach_operation_received(operation.get(), &received) == PLEACH_OK) {
      source_ = received.source;
    }
    try {
      for (const Landing& landing : task_.landings) {
        land(landing);
      }
    } catch (...) {
      exception = std::current_exception();
    }
  }
  end(exception, nullptr);
}

void Work::end(std::exception_ptr exception, std::shared_ptr<Arrival> arrival) {
  FlightRing::of_process().end(flight_, exception ? FlightState::kFailed : FlightState::kCompleted);
  task_.landings.clear();
  task_.kept.clear();
  c10::intrusive_ptr<Future> future;
  {
    const std::scoped_lock lock(mutex_);
    exception_ = std::move(exception);
    arrival_ = std::move(arrival);
    is_done_ = true;
    run_.operation = nullptr;
    future = future_;
  }
  cv_.notify_all();
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
  if (future) {
    auto self = c10::intrusive_ptr<Work>::reclaim_copy(this);
    run_soon([self, future] { self->complete(future); });
  }
}

void Work::complete(const c10::intrusive_ptr<Future>& future) const {
  if (exception_) {
    future->setError(exception_);
    return;
  }
  // Its readers wait for what the present stream has been given.
  c10::OptionalStreamGuard stream;
  if (arrival_) {
    stream.reset_stream(arrival_->stream);
  }
  future->markCompleted(value());
}

bool Work::isCompleted() {
  const Call call;
  if (const Operation operation = this->operation(); operation != nullptr && !is_done_) {
    int32_t is_done = 0;
    pleach_operation_test(operation.get(), &is_done);
  }
  return is_done_ && (!arrival_ || arrival_->written.query());
}

bool Work::isSuccess() const {
  const std::scoped_lock lock(mutex_);
  return is_done_ && !exception_;
}

std::exception_ptr Work::exception() const {
  const std::scoped_lock lock(mutex_);
  return exception_;
}

int Work::sourceRank() const {
  TORCH_CHECK(task_.is_message, "pleach: ", task_.name, " has no source rank");
  return source_;
}

Tensors Work::result() {
  // On a device they may be on their way: who has called wait() reads them after that.
  TORCH_CHECK(isCompleted() || is_done_, "pleach: ", task_.name,
              ": work needs to be completed before calling result(): call wait() before");
  return joined(task_.outputs);
}

bool Work::wait(milliseconds timeout) {
  const Call call;
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  if (!is_done_) {
    await_end(timeout);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (exception_) {
      std::rethrow_exception(exception_);
    }
  }
  synchronize();
  while (timeout != kNoTimeout && !isCompleted()) {
    TORCH_CHECK_WITH(DistBackendError, std::chrono::steady_clock::now() < deadline,
                     "pleach: ", text(), ", was not on its device within ", timeout.count(),
                     " ms: it goes on");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

void Work::synchronize() {
  if (is_done_ && arrival_) {
    const c10::Device device = arrival_->stream.device();
    arrival_->written.block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
}

bool Work::ends_within(milliseconds longest) {
  if (is_queued_) {  // Whoever starts it ends it in time.
    std::unique_lock lock(mutex_);
    return cv_.wait_for(lock, longest, [&] { return is_done_.load(); });
  }
  const Operation operation = this->operation();
  return operation == nullptr ||
         pleach_operation_wait(operation.get(), longest.count()) != PLEACH_TIMEOUT || is_done_;
}

void Work::await_end(milliseconds timeout) {
  milliseconds left = timeout == kNoTimeout ? milliseconds::max() : timeout;
  while (!ends_within(std::min(left, kBetweenSignals))) {
    TORCH_CHECK_WITH(DistBackendError, left > kBetweenSignals, "pleach: ", text(),
                     ", was not done within ", timeout.count(), " ms: it goes on");
    left -= kBetweenSignals;
    take_signals();
  }
  // Another thread may have found it done, and be about to say so.
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [&] { return is_done_.load(); });
}

std::exception_ptr Work::break_off(const std::string& why) const {
  const std::string reason = text() + ": " + why;
  group_->abort(reason);
  return failure(reason);
}

void Work::abort() {
  group_->abort(text() + ", was aborted");
}

c10::intrusive_ptr<Future> Work::getFuture() {
  const std::unique_lock lock(mutex_);
  if (!future_) {
    const auto list = c10::ListType::create(c10::TensorType::get());
    const bool is_nested = task_.outputs.size() > 1;
    future_ =
        c10::make_intrusive<Future>(is_nested ? c10::ListType::create(list) : list, devices());
    if (is_done_) {
      complete(future_);
    }
  }
  return future_;
}

c10::IValue Work::value() const {
  if (task_.outputs.empty()) {
    return Tensors();
  }
  return task_.outputs.size() == 1 ? c10::IValue(task_.outputs[0]) : c10::IValue(task_.outputs);
}

float Work::getDuration() const {
  TORCH_CHECK(is_done_ && run_.duration_ns >= 0, "pleach: ", task_.name,
              " has no duration: it is not done, or its caller waited at once");
  return static_cast<float>(run_.duration_ns) / 1e6F;
}

// Those of the outputs that have streams.
std::vector<c10::Device> Work::devices() const {
  for (const Tensors& list : task_.outputs) {
    for (const at::Tensor& tensor : list) {
      return tensor.is_cpu() ? std::vector<c10::Device>() : std::vector{tensor.device()};
    }
  }
  return {};
}

std::string Work::text() const {
  return c10::str(task_.name, " ", sequence_, " of group ", group_->name(), ", with a timeout of ",
                  task_.timeout.count(), " ms");
}

CoalescedWork::CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(),
                     [](const auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(),
                     [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (const std::exception_ptr exception = work->exception()) {
      return exception;
    }
  }
  return nullptr;
}

Tensors CoalescedWork::result() {
  Tensors all;
  for (const auto& work : works_) {
    const Tensors some = work->result();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void CoalescedWork::synchronize() {
  for (const auto& work : works_) {
    work->synchronize();
  }
}

bool CoalescedWork::wait(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const auto& work : works_) {
    if (timeout == kNoTimeout) {
      work->wait(kNoTimeout);
      continue;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    work->wait(std::max(std::chrono::duration_cast<milliseconds>(left), milliseconds(1)));
  }
  return true;
}

void CoalescedWork::abort() {
  for (const auto& work : works_) {
    work->abort();
  }
}

c10::intrusive_ptr<Future> CoalescedWork::getFuture() {
  c10::List<c10::intrusive_ptr<Future>> parts(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& work : works_) {
    parts.push_back(work->getFuture());
  }
  const auto all = c10::collectAll(parts);
  return all->then(
      [](Future& done) {
        Tensors outputs;
        for (const c10::IValue& part : done.value().toListRef()) {
          const auto future = part.toFuture();
          if (future->hasError()) {
            std::rethrow_exception(future->exception_ptr());
          }
          for (const at::Tensor& tensor : future->value().toTensorVector()) {
            outputs.push_back(tensor);
          }
        }
        return c10::IValue(std::move(outputs));
      },
      c10::ListType::create(c10::TensorType::get()));
}

uint64_t CoalescedWork::getSequencenumber() const {
  return works_.empty() ? 0 : works_.back()->getSequencenumber();
}

}  // namespace pleach_torch
