#include "staging.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <utility>

#include "cuts.h"
#include "errors.h"
#include "work.h"

namespace pleach_torch {
namespace {

using c10::impl::VirtualGuardImpl;

// One-dimensional memory that a device copies from and to while the host does other things.
at::Tensor pinned(int64_t size, at::ScalarType type, c10::DeviceType device) {
  return at::detail::empty_generic({size}, at::getHostAllocator(device),
                                   c10::DispatchKeySet(c10::DispatchKey::CPU), type, std::nullopt);
}

// Copies intervals of flat tensors, as if they lay end to end, to memory that has them end to end,
// or from there; on the present stream.
void copy_parts(const Tensors& tensors, const std::vector<Interval>& intervals,
                const at::Tensor& host, bool is_out) {
  int64_t at_host = 0;
  for (const Interval& interval : intervals) {
    int64_t begin = 0;  // of the tensor
    for (const at::Tensor& tensor : tensors) {
      const int64_t first = std::max(begin, interval.begin);
      const int64_t last = std::min(begin + tensor.numel(), interval.begin + interval.size);
      if (first < last) {
        const at::Tensor ours = tensor.narrow(0, first - begin, last - first);
        const at::Tensor theirs = host.narrow(0, at_host, last - first);
        is_out ? theirs.copy_(ours, true) : ours.copy_(theirs, true);
        at_host += last - first;
      }
      begin += tensor.numel();
    }
  }
}

int64_t size_of(const std::vector<Interval>& intervals) {
  int64_t size = 0;
  for (const Interval& interval : intervals) {
    size += interval.size;
  }
  return size;
}

// The tensors of a request as flat ones on their device, and what the caller's stream had been
// given when they were asked for.
struct DeviceSide {
  explicit DeviceSide(Request& request);

  c10::Event written;
  Tensors from, to;
  std::vector<Landing> landings;  // on the device, of what does not lie end to end
};

bool overlap(const Tensors& some, const Tensors& others) {
  for (const at::Tensor& one : some) {
    for (const at::Tensor& other : others) {
      if (one.numel() > 0 && other.numel() > 0 && one.is_alias_of(other)) {
        return true;
      }
    }
  }
  return false;
}

// Whether the smaller one is its rank's place in the other: nothing that is written is read later.
bool is_in_place(const Request& request, const Tensors& from, const Tensors& to) {
  if (from.size() != 1 || to.size() != 1) {
    return false;
  }
  const auto address = [](const at::Tensor& tensor) {
    return static_cast<const std::byte*>(tensor.const_data_ptr());
  };
  const int64_t apart = from[0].numel() < to[0].numel() ? address(from[0]) - address(to[0])
                                                        : address(to[0]) - address(from[0]);
  const int64_t before = request.size_before();
  return before >= 0 && apart == before * static_cast<int64_t>(from[0].element_size());
}

// Whether it is being captured into a graph. PyTorch 2.11 does not tell that of any device.
template <typename Guard>
bool is_captured(const Guard& device, c10::Stream stream) {
  if constexpr (requires { device.isStreamCapturing(stream); }) {
    return device.isStreamCapturing(stream);
  }
  return false;
}

DeviceSide::DeviceSide(Request& request) : written(request.device().type()) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const VirtualGuardImpl device(request.device().type());
  const c10::Stream stream = device.getStream(request.device());
  TORCH_CHECK_NOT_IMPLEMENTED(!is_captured(device, stream), "pleach: ", request.task.name,
                              ": a stream that is being captured is not supported");
  for (const at::Tensor& tensor : request.from) {
    from.push_back(tensor.contiguous().view({-1}));
  }
  for (size_t index = 0; index < request.to.size(); ++index) {
    const at::Tensor& tensor = request.to[index];
    const bool is_flat = tensor.is_contiguous();
    to.push_back(is_flat ? tensor.view({-1}) : at::empty({tensor.numel()}, tensor.options()));
    if (!is_flat) {
      landings.push_back({to.back(), tensor});
    }
  }
  if (!request.is_one_buffer && overlap(from, to) && !is_in_place(request, from, to)) {
    for (at::Tensor& tensor : from) {
      tensor = tensor.clone();
    }
  }
  written.record(stream);
}

// What has become of a chunk's travel. It is apart from the chunk, as who tells of it lets go of it
// late: the chunk's memory is the next one's by then.
struct Outcome {
  std::atomic<bool> is_known = false;
  pleach_status status = PLEACH_OK;  // then
  std::string error;
};

// A part of the request on its way.
struct Chunk {
  enum class State : uint8_t { kCopiedOut, kTravels, kCopiedBack };

  Cut cut;
  Request part;  // of host memory
  State state = State::kCopiedOut;
  c10::Event copied;  // of the last copy
  pleach_operation* operation = nullptr;
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();

  Chunk(const Cut& its_cut, const Request& request);
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() { pleach_operation_destroy(operation); }
};

Chunk::Chunk(const Cut& its_cut, const Request& request)
    : cut(its_cut),
      part(request.task.kind, request.task.name, request.member),
      copied(request.device().type()) {
  part.asked = request.asked;
  part.asked.count = cut.count;
  part.asked.piece_count = cut.piece_count;
  part.counts = cut.counts;
  part.receive_counts = cut.receive_counts;
  part.reduced = request.reduced;
  part.is_one_buffer = request.is_one_buffer;
  part.message = request.message;
  const auto memory = [&](const Tensors& like, const std::vector<Interval>& intervals) {
    return pinned(size_of(intervals), like[0].scalar_type(), like[0].device().type());
  };
  if (!request.from.empty()) {
    part.from = {memory(request.from, cut.from)};
  }
  if (!request.to.empty()) {
    part.to = {part.is_one_buffer ? part.from[0] : memory(request.to, cut.to)};
  }
}

// Whom to tell when a chunk has travelled.
struct Notice {
  std::shared_ptr<Outcome> outcome;
  std::shared_ptr<Lane> lane;

  static void give(void* context, pleach_status status, const char* error) {
    const std::unique_ptr<Notice> notice(static_cast<Notice*>(context));
    notice->outcome->status = status;
    notice->outcome->error = error;
    notice->outcome->is_known = true;
    notice->lane->wake();
  }
};

// Keeps what the device writes and reads until it is done with it, whatever becomes of the job.
class StagedJob final : public Job {
 public:
  StagedJob(c10::intrusive_ptr<Work> work, std::shared_ptr<Request> request, int64_t chunk_bytes,
            std::chrono::milliseconds patience)
      : Job(patience),
        work_(std::move(work)),
        request_(std::move(request)),
        side_(*request_),
        cuts_(cut_request(*request_,
                          chunk_bytes / static_cast<int64_t>(c10::elementSize(request_->type())))) {
    work_->group().note_begun();
  }

  bool advance(bool may_start, LaneMeans& means) override;
  bool has_started() const override { return started_ == cuts_.size() || has_ended_; }
  bool has_ended() const override { return has_ended_; }
  bool is_over() const override { return has_ended_ && chunks_.empty() && !arrival_; }
  void fail(const std::exception_ptr& why) override;
  void expire() override;

 private:
  bool has_got_to(const c10::Event& event);
  void break_off(const std::string& why);
  bool is_held_up();
  int64_t let_go_of_chunks();
  void copy_out(const SideStreams& streams);
  void copy_back(Chunk& chunk, const SideStreams& streams);
  void send_off(const std::shared_ptr<Chunk>& chunk);
  bool move(const std::shared_ptr<Chunk>& chunk, bool may_start, const SideStreams& streams);
  void finish(const SideStreams& streams);

  const c10::intrusive_ptr<Work> work_;
  const std::shared_ptr<Request> request_;
  const DeviceSide side_;
  const std::vector<Cut> cuts_;
  std::deque<std::shared_ptr<Chunk>> chunks_;
  size_t copied_out_ = 0;  // chunks so far
  size_t started_ = 0;
  size_t copied_back_ = 0;
  std::shared_ptr<Arrival> arrival_;
  bool has_ended_ = false;
};

void StagedJob::copy_out(const SideStreams& streams) {
  const auto chunk = std::make_shared<Chunk>(cuts_[copied_out_], *request_);
  if (!side_.from.empty()) {
    const c10::StreamGuard guard(streams.out);
    if (copied_out_ == 0) {
      side_.written.block(streams.out);
    }
    copy_parts(side_.from, chunk->cut.from, chunk->part.from[0], true);
    chunk->copied.record(streams.out);
  }
  chunks_.push_back(chunk);
  ++copied_out_;
  note_move();
}

void StagedJob::send_off(const std::shared_ptr<Chunk>& chunk) {
  chunk->part.place();
  chunk->part.scale();
  Group& group = work_->group();
  const pleach_status status = chunk->part.perform(group.handle().get(), &chunk->operation);
  if (status != PLEACH_OK) {
    break_off(pleach_last_error());
    return;
  }
  chunk->state = Chunk::State::kTravels;
  ++started_;
  note_progress();
  auto notice =
      std::make_unique<Notice>(Notice{chunk->outcome, group.lane(chunk->part.message.has_value())});
  check(pleach_operation_on_done(chunk->operation, &Notice::give, notice.release()));
}

void StagedJob::copy_back(Chunk& chunk, const SideStreams& streams) {
  pleach_received received = {};
  if (chunk.part.message && pleach_operation_received(chunk.operation, &received) == PLEACH_OK) {
    work_->set_source(received.source);
  }
  if (!side_.to.empty()) {
    const c10::StreamGuard guard(streams.back);
    if (copied_back_ == 0) {
      side_.written.block(streams.back);  // what the caller asked for before may still use it
    }
    copy_parts(side_.to, chunk.cut.to, chunk.part.to[0], false);
    chunk.copied.record(streams.back);
  }
  chunk.state = Chunk::State::kCopiedBack;
  ++copied_back_;
  note_move();
}

void StagedJob::finish(const SideStreams& streams) {
  const c10::StreamGuard guard(streams.back);
  for (const Landing& landing : side_.landings) {
    landing.target.copy_(landing.source.view(landing.target.sizes()), true);
  }
  arrival_ = std::make_shared<Arrival>(streams.back);
  has_ended_ = true;
  work_->end(nullptr, arrival_);
  work_->group().note_done();
}

// Moves a chunk on; whether it waits for its device.
bool StagedJob::move(const std::shared_ptr<Chunk>& chunk, bool may_start,
                     const SideStreams& streams) {
  if (chunk->state == Chunk::State::kCopiedOut && may_start && !has_ended_ &&
      chunk->copied.query()) {
    send_off(chunk);
  }
  if (chunk->state == Chunk::State::kTravels && chunk->outcome->is_known && !has_ended_) {
    if (chunk->outcome->status != PLEACH_OK) {
      break_off(chunk->outcome->error);
    } else {
      copy_back(*chunk, streams);
    }
  }
  return chunk->state != Chunk::State::kTravels;
}

// A device that has failed will not get anywhere, and writes nothing more.
bool StagedJob::has_got_to(const c10::Event& event) {
  try {
    return event.query();
  } catch (const std::exception& error) {
    break_off(said_by(error));
    return true;
  }
}

// Those of no more use to anybody, which no device writes or reads; returns how many.
int64_t StagedJob::let_go_of_chunks() {
  const auto freed = std::erase_if(chunks_, [&](const std::shared_ptr<Chunk>& chunk) {
    switch (chunk->state) {
      case Chunk::State::kCopiedOut:
        return has_ended_ && has_got_to(chunk->copied);
      case Chunk::State::kTravels:
        return has_ended_ && chunk->outcome->is_known;
      case Chunk::State::kCopiedBack:
        return has_got_to(chunk->copied);
    }
    return false;
  });
  if (freed > 0) {
    note_move();
  }
  return static_cast<int64_t>(freed);
}

bool StagedJob::advance(bool may_start, LaneMeans& means) {
  const at::AutoDispatchBelowADInplaceOrView below_gradients;
  const size_t copied_out_before = copied_out_;
  bool waits_for_device = false;
  try {
    const SideStreams streams = means.streams_of(request_->device());
    for (const auto& chunk : chunks_) {
      waits_for_device |= move(chunk, may_start, streams);
      may_start = may_start && chunk->state != Chunk::State::kCopiedOut;
    }
    if (copied_back_ == cuts_.size() && !has_ended_) {
      finish(streams);
    }
    means.free_chunks += let_go_of_chunks();
    while (!has_ended_ && copied_out_ < cuts_.size() && means.free_chunks > 0) {
      copy_out(streams);
      --means.free_chunks;
    }
  } catch (const std::exception& error) {
    break_off(said_by(error));
  }
  if (arrival_ && has_got_to(arrival_->written)) {
    arrival_ = nullptr;
  }
  return waits_for_device || arrival_ || copied_out_ > copied_out_before;
}

void StagedJob::fail(const std::exception_ptr& why) {
  if (!has_ended_) {
    has_ended_ = true;
    work_->end(why, nullptr);
    work_->group().note_done();
  }
}

// Ends its group, too: a later operation would take the place of what has not been started.
void StagedJob::break_off(const std::string& why) {
  if (!has_ended_) {
    fail(work_->break_off(why));
  }
}

bool StagedJob::is_held_up() {
  return started_ < copied_out_ &&
         !has_got_to(chunks_[chunks_.size() - (copied_out_ - started_)]->copied);
}

void StagedJob::expire() {
  const bool travels = std::any_of(chunks_.begin(), chunks_.end(), [](const auto& chunk) {
    return chunk->state == Chunk::State::kTravels;
  });
  if (travels) {  // the runtime tells what becomes of it
    note_progress();
    return;
  }
  break_off(is_held_up() ? "its device has not written what it reads" : kHeldUp);
}

}  // namespace

std::shared_ptr<Job> stage(const c10::intrusive_ptr<Work>& work,
                           const std::shared_ptr<Request>& request, int64_t chunk_bytes,
                           std::chrono::milliseconds patience) {
  return std::make_shared<StagedJob>(work, request, chunk_bytes, patience);
}

}  // namespace pleach_torch
