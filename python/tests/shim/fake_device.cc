#include "python/tests/shim/fake_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace fake_device {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

struct Event {
  uint64_t given = 0;  // versions
  uint64_t reached = 0;
};

struct Task {
  std::function<void()> run;
  std::function<bool()> may_run;  // asked under the machine's lock
};

// All streams, and the thread that runs them. Never destroyed.
class Machine {
 public:
  static Machine& of_process() {
    static auto* const machine = new Machine;
    return *machine;
  }

  int64_t new_stream() {
    const std::scoped_lock lock(mutex_);
    streams_.emplace_back();
    return static_cast<int64_t>(streams_.size()) - 1;
  }

  void give(int64_t stream, Task task) {
    const std::scoped_lock lock(mutex_);
    give_locked(stream, std::move(task));
  }

  void record(const std::shared_ptr<Event>& event, int64_t stream) {
    const std::scoped_lock lock(mutex_);
    const uint64_t version = ++event->given;
    give_locked(stream, {[this, event, version] {
                           const std::scoped_lock inner(mutex_);
                           event->reached = std::max(event->reached, version);
                         },
                         nullptr});
  }

  void block(const std::shared_ptr<Event>& event, int64_t stream) {
    const std::scoped_lock lock(mutex_);
    give_locked(stream,
                {[] {}, [event, version = event->given] { return event->reached >= version; }});
  }

  bool has_reached(const Event& event) {
    const std::scoped_lock lock(mutex_);
    return event.reached >= event.given;
  }

  void await(const Event& event) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return event.reached >= event.given; });
  }

  void await_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::all_of(streams_.begin(), streams_.end(),
                         [](const Stream& stream) { return is_idle(stream); });
    });
  }

  bool is_idle(int64_t stream) {
    const std::scoped_lock lock(mutex_);
    return is_idle(streams_[stream]);
  }

  void await_stream(int64_t stream) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_idle(streams_[stream]); });
  }

  void set_seed(uint64_t seed) {
    const std::scoped_lock lock(mutex_);
    seed_ = seed;
    random_.seed(seed);
  }

  void hold(int64_t stream) {
    const std::scoped_lock lock(mutex_);
    held_.insert(stream);
  }

  void hold_all() {
    const std::scoped_lock lock(mutex_);
    are_all_held_ = true;
  }

  void release_all() {
    const std::scoped_lock lock(mutex_);
    held_.clear();
    are_all_held_ = false;
    changed_.notify_all();
  }

 private:
  struct Stream {
    std::deque<Task> tasks;
    bool is_running = false;
  };

  Machine() {
    streams_.emplace_back();  // the default one
    std::thread(&Machine::run, this).detach();
  }

  static bool is_idle(const Stream& stream) { return stream.tasks.empty() && !stream.is_running; }

  void give_locked(int64_t stream, Task task) {
    streams_[stream].tasks.push_back(std::move(task));
    changed_.notify_all();
  }

  std::vector<size_t> ready() const {
    std::vector<size_t> found;
    for (size_t index = 0; index < streams_.size() && !are_all_held_; ++index) {
      const auto& tasks = streams_[index].tasks;
      if (!tasks.empty() && held_.count(static_cast<int64_t>(index)) == 0 &&
          (!tasks.front().may_run || tasks.front().may_run())) {
        found.push_back(index);
      }
    }
    return found;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::vector<size_t> found;
      changed_.wait(lock, [&] {
        found = ready();
        return !found.empty();
      });
      if (seed_ != 0 && random_() % 4 == 0) {
        const auto pause = std::chrono::microseconds(random_() % 150);
        lock.unlock();
        std::this_thread::sleep_for(pause);
        lock.lock();
        found = ready();
        if (found.empty()) {
          continue;
        }
      }
      Stream& stream = streams_[found[seed_ == 0 ? 0 : random_() % found.size()]];
      Task task = std::move(stream.tasks.front());
      stream.tasks.pop_front();
      stream.is_running = true;
      lock.unlock();
      task.run();
      task = {};
      lock.lock();
      stream.is_running = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Stream> streams_;  // a deque: they stay where they are
  std::set<int64_t> held_;
  bool are_all_held_ = false;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

thread_local int64_t current = 0;

c10::Stream stream_of(int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, kDevice, id);
}

void poison(void* memory, size_t bytes) {
  auto* const values = static_cast<float*>(memory);
  std::fill(values, values + bytes / sizeof(float), kPoison);
}

// --- Memory

struct Block {
  void* memory;
  size_t bytes;
  int64_t stream;  // allocated on
  std::set<int64_t> recorded;
};

std::mutex blocks_mutex;  // of `recorded`

void let_go(void* context) {
  const std::shared_ptr<Block> block(static_cast<Block*>(context));
  Machine& machine = Machine::of_process();
  const auto reached = std::make_shared<std::vector<std::shared_ptr<Event>>>();
  for (const int64_t stream : block->recorded) {
    reached->push_back(std::make_shared<Event>());
    machine.record(reached->back(), stream);
  }
  machine.give(block->stream, {[block] {
                                 poison(block->memory, block->bytes);
                                 ::operator delete(block->memory);
                               },
                               [reached] {
                                 return std::all_of(reached->begin(), reached->end(),
                                                    [](const auto& event) {
                                                      return event->reached >= event->given;
                                                    });
                               }});
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<Block>();
    block->bytes = std::max<size_t>(bytes, 1);
    block->memory = ::operator new(block->bytes);
    block->stream = current;
    poison(block->memory, bytes);
    void* const memory = block->memory;
    return {memory, block.release(), &let_go, kDevice};
  }
  void copy_data(void* /*target*/, const void* /*source*/, size_t /*bytes*/) const override {
    TORCH_CHECK(false, "not here");
  }
};

std::atomic<int64_t> pinned_now = 0;
std::atomic<int64_t> pinned_peak = 0;
std::mutex hook_mutex;
std::function<void(size_t)> pinned_hook;
std::atomic<bool> is_broken_now = false;

struct PinnedAllocator final : at::HostAllocator {
  struct Pinned {
    void* memory;
    size_t bytes;
  };
  c10::DataPtr allocate(size_t bytes) override {
    {
      const std::scoped_lock lock(hook_mutex);
      if (pinned_hook) {
        pinned_hook(bytes);
      }
    }
    auto pinned =
        std::make_unique<Pinned>(Pinned{::operator new(std::max<size_t>(bytes, 1)), bytes});
    poison(pinned->memory, bytes);
    pinned_now += static_cast<int64_t>(bytes);
    int64_t peak = pinned_peak;
    while (peak < pinned_now && !pinned_peak.compare_exchange_weak(peak, pinned_now)) {
    }
    void* const memory = pinned->memory;
    return {memory, pinned.release(), &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  static void free_pinned(void* context) {
    const std::unique_ptr<Pinned> pinned(static_cast<Pinned*>(context));
    pinned_now -= static_cast<int64_t>(pinned->bytes);
    poison(pinned->memory, pinned->bytes);
    ::operator delete(pinned->memory);
  }
  void copy_data(void* /*target*/, const void* /*source*/, size_t /*bytes*/) const override {
    TORCH_CHECK(false, "not here");
  }
  bool record_event(void* /*memory*/, void* /*context*/, c10::Stream /*stream*/) override {
    return false;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

// --- Streams and events, as PyTorch asks for them

std::shared_ptr<Event>& event_of(void* event) {
  return *static_cast<std::shared_ptr<Event>*>(event);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device /*device*/) const override { return stream_of(current); }
  c10::Stream getDefaultStream(c10::Device /*device*/) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*device*/, bool /*high*/) const override {
    return new_stream();
  }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/) const override {
    return new_stream();
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(std::exchange(current, stream.id()));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) {
      *event = new std::shared_ptr<Event>(std::make_shared<Event>());
    }
    Machine::of_process().record(event_of(*event), stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      Machine::of_process().block(event_of(event), stream.id());
    }
  }
  bool queryEvent(void* event) const override {
    TORCH_CHECK(!is_broken_now, "the device has failed");
    return event == nullptr || Machine::of_process().has_reached(*event_of(event));
  }
  void synchronizeEvent(void* event) const override {
    Machine::of_process().await(*event_of(event));
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<std::shared_ptr<Event>*>(event);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return Machine::of_process().is_idle(stream.id());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Machine::of_process().await_stream(stream.id());
  }
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override {
    Machine::of_process().await_all();
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    const std::scoped_lock lock(blocks_mutex);
    static_cast<Block*>(memory.get_context())->recorded.insert(stream.id());
  }
};

// --- Operations

DeviceAllocator& allocator() {
  static auto* const one = new DeviceAllocator;
  return *one;
}

at::Tensor empty_of(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                    std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                    std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &allocator(),
                                   c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided_of(at::IntArrayRef sizes, at::IntArrayRef strides,
                            std::optional<at::ScalarType> type,
                            std::optional<at::Layout> /*layout*/,
                            std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator(),
                                           c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

// Its memory, which it does not keep.
at::Tensor on_host(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  Machine::of_process().give(current, {[from = on_host(source), to = on_host(target)] {
                                         if (!is_broken_now) {
                                           to.copy_(from);
                                         }
                                       },
                                       nullptr});
  if (!non_blocking) {
    Machine::of_process().await_stream(current);
  }
  return target;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, module) {
  module.impl("empty.memory_format", &empty_of);
  module.impl("empty_strided", &empty_strided_of);
  module.impl("_copy_from", &copy_from);
  module.impl("view", &at::native::view);
  module.impl("as_strided", &at::native::as_strided_tensorimpl);
}

}  // namespace

void install() {
  static const bool is_installed = [] {
    static c10::impl::DeviceGuardImplRegistrar registrar(kType, new Guard);
    at::setHostAllocator(kType, new PinnedAllocator);
    return true;
  }();
  (void)is_installed;
}

void set_seed(uint64_t seed) {
  Machine::of_process().set_seed(seed);
}

void hold(c10::Stream stream) {
  Machine::of_process().hold(stream.id());
}

void hold_all() {
  Machine::of_process().hold_all();
}

void release_all() {
  Machine::of_process().release_all();
}

c10::Stream new_stream() {
  return stream_of(Machine::of_process().new_stream());
}

c10::Stream current_stream() {
  return stream_of(current);
}

void launch(c10::Stream stream, std::function<void()> task) {
  Machine::of_process().give(stream.id(), {std::move(task), nullptr});
}

void synchronize() {
  Machine::of_process().await_all();
}

at::Tensor empty(at::IntArrayRef sizes) {
  return at::empty(sizes, at::TensorOptions().dtype(at::kFloat).device(kDevice));
}

void fill(const at::Tensor& tensor, float begin, float step) {
  launch(current_stream(), [memory = on_host(tensor), begin, step] {
    const at::Tensor values = at::arange(memory.numel(), at::kFloat).mul(step).add(begin);
    memory.copy_(values.view(memory.sizes()));
  });
}

std::shared_ptr<std::vector<float>> read(const at::Tensor& tensor) {
  auto values = std::make_shared<std::vector<float>>();
  launch(current_stream(), [memory = on_host(tensor), values] {
    const at::Tensor flat = memory.contiguous().view({-1});
    const auto* const data = flat.const_data_ptr<float>();
    values->assign(data, data + flat.numel());
  });
  return values;
}

void set_broken(bool is_broken) {
  is_broken_now = is_broken;
}

void on_pinned(std::function<void(size_t)> hook) {
  const std::scoped_lock lock(hook_mutex);
  pinned_hook = std::move(hook);
}

int64_t pinned_bytes() {
  return pinned_now;
}

int64_t pinned_peak_bytes() {
  return pinned_peak;
}

void reset_pinned_peak() {
  pinned_peak = pinned_now.load();
}

}  // namespace fake_device
