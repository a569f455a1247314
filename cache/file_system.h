// What the operating system says about a database's file and folder before SQLite sees them. Internal to cache/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tilewright {

/// The network file system that holds `path` (which must exist), such as "nfs"; empty for a local one. FUSE counts as
/// one: nothing tells a local FUSE file system from a remote one, and the slower journal is right on both.
std::string_view networkFileSystem(const std::filesystem::path& path);

/// Whether the file system of `path` is mounted read-only, so that nobody changes the file while it is open.
bool onReadOnlyFileSystem(const std::filesystem::path& path);

/// Makes a database's missing folders, readable by their owner alone.
Result<void> makeFolders(const std::filesystem::path& folder);

/// The first look at an existing file: kNotFound (none), kInvalidArgument (not a regular file), kIo (unreadable),
/// kCorrupt (no SQLite header, empty, or shorter than its own page count says).
Result<void> checkDatabaseFile(const std::filesystem::path& path);

/// Flushes a file or folder to the disk.
Result<void> flushToDisk(const std::filesystem::path& path);

}  // namespace tilewright
