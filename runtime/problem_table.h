// A hash table from packed problems to plans, read without locks: what a launch looks up.
//
// Open addressing with linear probing, at most half full; a slot is one cache line, the key's 56 bytes and the
// value's 8. A writer fills the key first and then publishes the value; a reader that sees the value sees the key.
// Values never change and are never removed. A table that fills up is copied into one of twice the size, and the old
// one stays until the end, for a reader may still be in it: all old tables together are smaller than the present one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/problem.h"

namespace tilewright {

/// Mixes the seven words by 64 x 64 to 128 bit products, whose halves are folded together.
inline std::uint64_t hashOf(const PackedProblem& key) {
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  // Odd constants from the fractional digits of pi, so that zero words do not fold to zero.
  constexpr std::array<std::uint64_t, 7> kSalt = {0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1,
                                                  0x082efa98ec4e6c89, 0x452821e638d01377, 0xbe5466cf34e90c6d,
                                                  0xc0ac29b7c97c50dd};
  const std::uint64_t a = fold(key[0] ^ kSalt[0], key[1] ^ kSalt[1]);
  const std::uint64_t b = fold(key[2] ^ kSalt[2], key[3] ^ kSalt[3]);
  const std::uint64_t c = fold(key[4] ^ kSalt[4], key[5] ^ kSalt[5]);
  return fold(a ^ kSalt[6] ^ key[6], b + (c << 1 | c >> 63));
}

/// Points to values that somebody else owns and that outlive the table.
template <typename Value>
class ProblemTable {
 public:
  explicit ProblemTable(std::size_t expected = 0) {
    std::size_t slots = kMinimumSlots;
    while (slots < 2 * expected) slots *= 2;
    generations_.push_back(std::make_unique<Generation>(slots));
    present_.store(generations_.back().get(), std::memory_order_release);
  }
  ProblemTable(const ProblemTable&) = delete;
  ProblemTable& operator=(const ProblemTable&) = delete;

  /// The value of a key, or null. Never allocates, locks or fails.
  Value* find(const PackedProblem& key) const noexcept {
    const Generation& generation = *present_.load(std::memory_order_acquire);
    for (std::size_t i = hashOf(key) & generation.mask;; i = (i + 1) & generation.mask) {
      const Slot& slot = generation.slots[i];
      Value* value = slot.value.load(std::memory_order_acquire);
      if (value == nullptr || slot.key == key) return value;
    }
  }

  /// Adds a value unless the key has one; the value that the key then has.
  Value* insert(const PackedProblem& key, Value* value) {
    const std::scoped_lock lock(writer_);
    if (Value* known = find(key)) return known;
    if (2 * (size_ + 1) > generations_.back()->mask + 1) grow();
    put(*generations_.back(), key, value);
    ++size_;
    return value;
  }

  std::size_t size() const {
    const std::scoped_lock lock(writer_);
    return size_;
  }

 private:
  static constexpr std::size_t kMinimumSlots = 64;

  struct alignas(64) Slot {
    PackedProblem key{};
    std::atomic<Value*> value = nullptr;
  };
  static_assert(sizeof(Slot) == 64, "a probe must touch one cache line");

  struct Generation {
    explicit Generation(std::size_t count) : mask(count - 1), slots(std::make_unique<Slot[]>(count)) {}
    std::size_t mask;
    std::unique_ptr<Slot[]> slots;
  };

  static void put(Generation& generation, const PackedProblem& key, Value* value) {
    std::size_t i = hashOf(key) & generation.mask;
    while (generation.slots[i].value.load(std::memory_order_relaxed) != nullptr) i = (i + 1) & generation.mask;
    generation.slots[i].key = key;
    generation.slots[i].value.store(value, std::memory_order_release);
  }

  void grow() {
    const Generation& old = *generations_.back();
    auto larger = std::make_unique<Generation>(2 * (old.mask + 1));
    for (std::size_t i = 0; i <= old.mask; ++i) {
      if (Value* value = old.slots[i].value.load(std::memory_order_relaxed)) put(*larger, old.slots[i].key, value);
    }
    generations_.push_back(std::move(larger));
    present_.store(generations_.back().get(), std::memory_order_release);
  }

  std::atomic<const Generation*> present_;
  std::vector<std::unique_ptr<Generation>> generations_;
  std::size_t size_ = 0;
  mutable std::mutex writer_;
};

}  // namespace tilewright
