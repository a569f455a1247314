// The table of plans: finds what was inserted and nothing else, also while another thread inserts.
#include "runtime/problem_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

namespace tilewright {
namespace {

PackedProblem keyOf(std::int64_t m) {
  return pack({.operation = Operation::kQ4kLinear, .linear = {.n = 14336, .k = 4096, .m = m}});
}

TEST(ProblemTable, findsWhatWasInsertedAndNothingElse) {
  std::vector<int> values(3000);
  std::iota(values.begin(), values.end(), 0);
  ProblemTable<const int> table;  // Grows several times.
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(table.insert(keyOf(i), &values[i]), &values[i]);
  EXPECT_EQ(table.size(), 3000u);
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(table.find(keyOf(i)), &values[i]);
  for (int i = 3000; i < 6000; ++i) EXPECT_EQ(table.find(keyOf(i)), nullptr);
}

TEST(ProblemTable, theFirstValueOfAKeyStays) {
  const int first = 1, second = 2;
  ProblemTable<const int> table;
  EXPECT_EQ(table.insert(keyOf(1), &first), &first);
  EXPECT_EQ(table.insert(keyOf(1), &second), &first);
  EXPECT_EQ(table.find(keyOf(1)), &first);
  EXPECT_EQ(table.size(), 1u);
}

TEST(ProblemTable, similarProblemsSpreadOverTheTable) {
  // Ladders of sizes differ in few bits; 4096 balls in 8192 bins fill 8192 (1 - 1 / e^0.5) = 3223 on average, with a
  // standard deviation below sqrt(8192) / 2 = 45. Half of the average is 36 deviations away.
  std::set<std::uint64_t> bins;
  for (int n = 1; n <= 64; ++n) {
    for (int m = 1; m <= 64; ++m) {
      bins.insert(hashOf(pack({.operation = Operation::kLinear, .linear = {.n = 256 * n, .k = 4096, .m = 16 * m}})) &
                  8191);
    }
  }
  EXPECT_GT(bins.size(), 3223u / 2);
}

TEST(ProblemTable, readersSeeWholeEntriesWhileAWriterInserts) {
  constexpr int kCount = 20000;
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  ProblemTable<const int> table;
  std::atomic<bool> wrong = false, stop = false;
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      for (int i = reader; !stop; i = (i + 7) % kCount) {
        const int* value = table.find(keyOf(i));
        if (value != nullptr && *value != i) wrong = true;
      }
    });
  }
  for (int i = 0; i < kCount; ++i) table.insert(keyOf(i), &values[i]);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(table.size(), static_cast<std::size_t>(kCount));
}

}  // namespace
}  // namespace tilewright
