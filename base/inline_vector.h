// A vector of at most kCapacity elements inside the object. What is not added is not initialized either, which matters
// to objects that are built on every launch.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

namespace tilewright {

template <typename T, std::size_t kCapacity>
class InlineVector {
  // Copying the bytes then copies the elements, and nothing needs to be destroyed.
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");

 public:
  /// Appends an element that is default-initialized: members without an initializer keep whatever bytes were there.
  T& add() {
    assert(size_ < kCapacity);
    return *::new (storage_.data() + sizeof(T) * size_++) T;
  }
  T& add(const T& element) {
    assert(size_ < kCapacity);
    return *::new (storage_.data() + sizeof(T) * size_++) T(element);
  }

  std::size_t size() const { return size_; }
  std::span<T> span() { return {std::launder(reinterpret_cast<T*>(storage_.data())), size_}; }
  std::span<const T> span() const { return {std::launder(reinterpret_cast<const T*>(storage_.data())), size_}; }

 private:
  alignas(T) std::array<std::byte, kCapacity * sizeof(T)> storage_;
  std::size_t size_ = 0;
};

}  // namespace tilewright
