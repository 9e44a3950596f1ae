#include "pleach/runtime/streaming.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using Bytes = std::vector<std::byte>;

// Ordinary numbers of every type, and no NaN.
Bytes operand(std::size_t count, Rng& rng) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rng.below(0x70));
  }
  return bytes;
}

TEST(StreamingTest, GivesTheBitsOfReduce) {
  Rng rng(3);
  std::vector<Bytes> operands;
  for (int k = 0; k < 5; ++k) {
    operands.push_back(operand(5000, rng));
  }
  for (const ElementType type : kAllElementTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      if (!check_reduction(type, op)) {
        continue;
      }
      for (int round = 0; round < 60; ++round) {
        const int64_t element = element_bytes(type);
        const int64_t count = static_cast<int64_t>(rng.below(round < 20 ? 20 : 500));
        const std::size_t begin = at(element) * rng.below(20);
        std::vector<const std::byte*> others;
        for (std::size_t k = 0; k <= rng.below(4); ++k) {
          others.push_back(operands[k + 1].data() + at(element) * rng.below(9));
        }
        SCOPED_TRACE(std::string(to_text(type)) + " " + std::string(to_text(op)) + ", " +
                     std::to_string(count) + " from byte " + std::to_string(begin));
        Bytes expected(5000, std::byte{9});
        Bytes found = expected;
        const std::size_t place = rng.below(12);  // the operand that the result takes the place of
        if (place < others.size() + 1) {
          expected = found = operands[place];
        }
        const auto fold = [&](auto* kernel, Bytes& out) {
          const std::byte* const first = (place == 0 ? out : operands[0]).data() + begin;
          std::vector<const std::byte*> rest = others;
          if (place > 0 && place <= rest.size()) {
            rest[place - 1] = out.data() + begin;
          }
          kernel({type, op}, out.data() + begin, first, rest, count);
        };
        fold(&reduce, expected);
        fold(&stream_reduce, found);
        ASSERT_EQ(found, expected);
      }
    }
  }
}

TEST(StreamingTest, CopiesTheseBytesAndNoOthers) {
  Rng rng(4);
  const Bytes from = operand(3000, rng);
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = rng.below(round < 100 ? 200 : 2000);
    const std::size_t begin = rng.below(200);
    const std::size_t source = rng.below(200);
    Bytes found(3000, std::byte{0xff});
    Bytes expected = found;
    std::memcpy(expected.data() + begin, from.data() + source, count);
    stream_copy(found.data() + begin, from.data() + source, static_cast<int64_t>(count));
    ASSERT_EQ(found, expected) << count << " to " << begin;
  }
}

}  // namespace
}  // namespace pleach
