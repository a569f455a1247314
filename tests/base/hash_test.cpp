// SHA-256 against the examples of FIPS 180-4 and NIST's test vectors, at every block boundary, and the framing of
// fields.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace tilewright {
namespace {

TEST(Sha256, matchesPublishedVectors) {
  EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, doesNotDependOnHowTheInputIsCut) {
  for (int size : {1, 55, 56, 57, 63, 64, 65, 127, 128, 129}) {
    const std::string text(size, 'x');
    Sha256 hash;
    for (const char& c : text) hash.update(std::string_view(&c, 1));
    EXPECT_EQ(hash.hexDigest(), sha256Hex(text)) << size;
  }
}

TEST(Sha256, fieldsAreFramed) {
  Sha256 first, second;
  first.field("ab"), first.field("c");
  second.field("a"), second.field("bc");
  EXPECT_NE(first.hexDigest(), second.hexDigest());
}

}  // namespace
}  // namespace tilewright
