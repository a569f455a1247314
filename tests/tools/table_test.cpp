// Tables and figures for people.
#include "tools/table.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Table, columnsAreAsWideAsTheirWidestCell) {
  Table table({{"name"}, {"size", Table::Side::kRight}, {"note"}});
  table.add({"a", "12345", ""});
  table.add({"größer", "7", "x"});
  EXPECT_EQ(table.text(),
            "name     size  note\n"
            "a       12345\n"
            "größer      7  x\n");
}

TEST(Table, controlCharactersBreakNoLine) {
  Table table({{"a"}});
  table.add({"x\n\x1b[2J\x7fü"});
  EXPECT_EQ(table.text(), "a\nx\\x0a\\x1b[2J\\x7fü\n");
}

TEST(Table, figuresKeepThreeDigits) {
  EXPECT_EQ(formatMicroseconds(1.234), "1.23 us");
  EXPECT_EQ(formatMicroseconds(12.34), "12.3 us");
  EXPECT_EQ(formatMicroseconds(123.4), "123 us");
  EXPECT_EQ(formatMicroseconds(1234), "1.23 ms");
  EXPECT_EQ(formatMicroseconds(2.5e6), "2.50 s");
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1536), "1.50 KiB");
  EXPECT_EQ(formatBytes(33.0 * 1024 * 1024), "33.0 MiB");
  EXPECT_EQ(formatBytes(1e18), "909495 TiB");
}

}  // namespace
}  // namespace tilewright
