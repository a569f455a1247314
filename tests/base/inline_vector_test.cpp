#include "base/inline_vector.h"

#include <gmock/gmock.h>

#include <cstdint>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Element {
  int value = 7;
  std::array<char, 100> rest;
};

TEST(InlineVector, holdsWhatWasAddedInOrder) {
  InlineVector<int, 3> vector;
  EXPECT_THAT(vector.span(), IsEmpty());
  vector.add(5);
  vector.add(6) = 8;
  EXPECT_THAT(vector.span(), ElementsAre(5, 8));
  vector.span()[0] = 1;
  const InlineVector<int, 3> copy = vector;
  vector.add(9);
  EXPECT_THAT(copy.span(), ElementsAre(1, 8));
  EXPECT_THAT(vector.span(), ElementsAre(1, 8, 9));
}

TEST(InlineVector, runsTheInitializersOfAnElement) {
  InlineVector<Element, 2> vector;
  EXPECT_EQ(vector.add().value, 7);
  EXPECT_EQ(vector.size(), 1u);
}

TEST(InlineVector, alignsItsElements) {
  struct alignas(64) Line {
    char bytes[64];
  };
  InlineVector<Line, 2> vector;
  vector.add(), vector.add();
  for (const Line& line : vector.span()) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&line) % 64, 0u);
}

}  // namespace
}  // namespace tilewright
