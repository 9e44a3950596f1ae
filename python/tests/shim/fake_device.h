// A device for tests: PyTorch's PrivateUse1, whose memory is the host's, and whose streams run what
// they are given in order, each when a seed says so, or when a test lets them. What is freed is
// poisoned as soon as PyTorch's rules allow: when the stream that it was allocated on, and those
// that it was recorded on, have got there. Memory of the host's is poisoned at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace fake_device {

constexpr float kPoison = -12345.0F;

// Makes PyTorch know it. Once; more calls do nothing.
void install();

// From now on streams take turns, and pause, as `seed` says. 0: no pauses.
void set_seed(uint64_t seed);

// Streams run nothing until they are let go. A stream may be held before it is used.
void hold(c10::Stream stream);
void hold_all();
void release_all();

c10::Stream new_stream();
c10::Stream current_stream();
void launch(c10::Stream stream, std::function<void()> task);
// Waits until all streams have done all that they have been given.
void synchronize();

// Of float32, full of poison.
at::Tensor empty(at::IntArrayRef sizes);
// Fills it with begin, begin + step, ... in the order of its elements, on the present stream.
void fill(const at::Tensor& tensor, float begin, float step = 1);
// What is in it when the present stream gets there.
std::shared_ptr<std::vector<float>> read(const at::Tensor& tensor);

// From now on its events cannot be asked about, and nothing is copied, as after an error of a
// device's; until it is false.
void set_broken(bool is_broken);

// Called for each piece of pinned memory that is asked for, of so many bytes; may throw. Empty:
// nothing is.
void on_pinned(std::function<void(size_t bytes)> hook);
// Of pinned memory, since the last call of reset_peak().
int64_t pinned_bytes();
int64_t pinned_peak_bytes();
void reset_pinned_peak();

}  // namespace fake_device
