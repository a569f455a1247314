// What the operating system says about a database's file and folder before SQLite sees them. Internal to cache/.
#pragma once

#include <array>
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

/// The name under which SQLite opens this file and no other: one that begins with "file:" it takes for a URI, and
/// ":memory:" for no file at all, so it gets absolute names alone.
std::string plainName(const std::filesystem::path& path);

/// Whether there is a file of this name that is not empty.
bool hasContent(const std::filesystem::path& path);

/// Makes a database's missing folders, readable by their owner alone.
Result<void> makeFolders(const std::filesystem::path& folder);

/// The first look at an existing file: kNotFound (none), kInvalidArgument (not a regular file), kIo (unreadable),
/// kCorrupt (empty). NOTE: never opens it. Closing any descriptor of a file drops the locks that SQLite holds on it in
/// this process, whoever else has it open here.
Result<void> checkDatabaseFile(const std::filesystem::path& path);

/// The first bytes of a SQLite file: https://www.sqlite.org/fileformat.html, section 1.3.
using DatabaseHeader = std::array<unsigned char, 100>;

/// What SQLite says less clearly: kCorrupt for a file that is no SQLite file or is shorter than its page count says.
/// `header` is filled with zeros behind the end of a shorter file.
Result<void> checkHeader(const std::filesystem::path& path, const DatabaseHeader& header, std::uintmax_t fileBytes);

/// Flushes a file or folder to the disk. Opens and closes it: for files that no connection of this process has open.
Result<void> flushToDisk(const std::filesystem::path& path);

}  // namespace tilewright
