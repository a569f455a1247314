#include "cache/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tilewright {
namespace {

std::uint32_t bigEndian(const DatabaseHeader& bytes, std::size_t offset, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes[offset + i];
  return value;
}

std::filesystem::path besides(const std::filesystem::path& path, std::string_view suffix) {
  return std::filesystem::path(path.string() + std::string(suffix));
}

}  // namespace

std::string_view networkFileSystem(const std::filesystem::path& path) {
  struct Kind {
    std::uint32_t magic;
    std::string_view name;
  };
  // Magic numbers of statfs(2) and of the file systems' own sources.
  static constexpr std::array kKinds = {
      Kind{0x6969, "nfs"},      Kind{0x517b, "smb"},        Kind{0xff534d42, "cifs"},   Kind{0xfe534d42, "smb2"},
      Kind{0x00c36400, "ceph"}, Kind{0x0bd00bd0, "lustre"}, Kind{0x47504653, "gpfs"},   Kind{0x01021997, "9p"},
      Kind{0x65735546, "fuse"}, Kind{0x5346414f, "afs"},    Kind{0x19830326, "beegfs"}, Kind{0x7461636f, "ocfs2"},
      Kind{0x01161970, "gfs2"}, Kind{0x73757245, "coda"},   Kind{0x564c, "ncp"},        Kind{0xaad7aaea, "panfs"},
  };
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return {};
  for (const Kind& kind : kKinds) {
    if (static_cast<std::uint32_t>(status.f_type) == kind.magic) return kind.name;
  }
  return {};
}

bool onReadOnlyFileSystem(const std::filesystem::path& path) {
  struct statvfs status{};
  return ::statvfs(path.c_str(), &status) == 0 && (status.f_flag & ST_RDONLY) != 0;
}

std::string plainName(const std::filesystem::path& path) {
  if (path.is_absolute()) return path.string();
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? "./" + path.string() : absolute.string();
}

bool hasContent(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  return !ignored && bytes > 0;
}

Result<void> makeFolders(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.empty() || std::filesystem::exists(folder, ignored)) return {};
  TW_TRY(makeFolders(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot make folder {}: {}", folder.string(),
                std::strerror(errno));
  }
  return {};
}

Result<void> checkDatabaseFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
      return fail(ErrorCode::kIo, "cannot open database {}: {}", path.string(), error.message());
    }
    std::error_code ignored;
    const bool folder = path.parent_path().empty() || std::filesystem::is_directory(path.parent_path(), ignored);
    return fail(ErrorCode::kNotFound, "cannot open database {}: no such {}", path.string(), folder ? "file" : "folder");
  }
  if (!std::filesystem::is_regular_file(status)) {
    return fail(ErrorCode::kInvalidArgument, "cannot open database {}: not a regular file", path.string());
  }

  if (::access(path.c_str(), R_OK) != 0) {
    return fail(ErrorCode::kIo, "cannot open database {}: {}", path.string(), std::strerror(errno));
  }
  if (std::filesystem::file_size(path, error) == 0) {
    return fail(ErrorCode::kCorrupt, "cannot open database {}: the file is empty", path.string());
  }
  return {};
}

Result<void> checkHeader(const std::filesystem::path& path, const DatabaseHeader& header, std::uintmax_t fileBytes) {
  static constexpr std::string_view kMagic("SQLite format 3\0", 16);
  const std::size_t got = std::min<std::uintmax_t>(fileBytes, header.size());
  if (std::memcmp(header.data(), kMagic.data(), std::min(got, kMagic.size())) != 0) {
    return fail(ErrorCode::kCorrupt, "cannot open database {}: not a SQLite file", path.string());
  }
  if (got < header.size()) {
    return fail(ErrorCode::kCorrupt, "cannot open database {}: truncated within its header", path.string());
  }

  // Beside a WAL or a hot journal the header may run ahead of the file; SQLite then repairs it.
  const std::uint32_t storedPageBytes = bigEndian(header, 16, 2);
  const std::uintmax_t pageBytes = storedPageBytes == 1 ? 65536 : storedPageBytes;
  const std::uintmax_t needed = pageBytes * bigEndian(header, 28, 4);
  const bool settled = !hasContent(besides(path, "-wal")) && !hasContent(besides(path, "-journal"));
  if (settled && fileBytes < needed) {
    return fail(ErrorCode::kCorrupt, "cannot open database {}: truncated to {} of {} bytes", path.string(), fileBytes,
                needed);
  }
  return {};
}

Result<void> flushToDisk(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail(ErrorCode::kIo, "cannot open {}: {}", path.string(), std::strerror(errno));
  const int status = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // Some file systems cannot flush a folder and say so; the rename is then as durable as they make it.
  if (status != 0 && reason != EINVAL) {
    return fail(ErrorCode::kIo, "cannot flush {} to disk: {}", path.string(), std::strerror(reason));
  }
  return {};
}

}  // namespace tilewright
