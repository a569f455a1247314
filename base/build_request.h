// What a code generator is asked for, what it gives back, and the interface between the two.
//
// A BuildRequest holds everything that changes the machine code, so its key (a hash over all of it and over the
// compiler's identity) is complete by construction. A Binary is content-addressed: its name is the hash of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tilewright {

enum class SourceKind : std::uint8_t {
  kCuda,  ///< CUDA C++ text, compiled by NVRTC
  kTile,  ///< the name of a tile program that is linked into the tile compiler
};

struct SourceFile {
  std::string name;  ///< as kernels include it, such as "templates/common/mbarrier.cuh"
  std::string text;
};

struct BuildRequest {
  SourceKind kind = SourceKind::kCuda;
  std::string templateId;            ///< such as "attention.tma_sm90"
  std::string source;                ///< kCuda: the whole main file; kTile: the tile program's name
  std::vector<SourceFile> includes;  ///< kCuda: every file that `source` can include, directly or not
  std::vector<std::pair<std::string, std::string>> parameters;  ///< in the template's order; kTile programs read these
  std::vector<std::string> options;                             ///< compiler options beyond the target
  std::string target;                                           ///< "sm_90a", "x86-64-v4"
  std::vector<std::string> entries;                             ///< the kernels' names in the binary
};

/// 64 hexadecimal digits over every field of the request and `compilerIdentity`.
std::string buildKey(const BuildRequest& request, std::string_view compilerIdentity);

/// "tile_m=128, stages=4": the parameters for messages and listings.
std::string describeParameters(const BuildRequest& request);

/// What the compiler said about one kernel.
struct KernelResources {
  std::string entry;
  int registers = 0;    ///< per thread
  int spillBytes = 0;   ///< spill stores plus loads, bytes per thread
  int stackBytes = 0;   ///< stack frame, bytes per thread
  int sharedBytes = 0;  ///< static shared memory, bytes per block
};

struct Binary {
  std::string hash;      ///< SHA-256 of `bytes`, hexadecimal
  std::string buildKey;  ///< key of the request that made it
  std::string target;
  std::string compiler;          ///< identity of the compiler that made it, such as "nvrtc 13.0.48"
  std::vector<std::byte> bytes;  ///< a cubin, or an object file for the host
  std::vector<KernelResources> kernels;
  std::vector<std::string> warnings;  ///< each a line; includes ptxas' "wgmma serialized" messages
  std::string log;                    ///< the compiler's whole output

  /// ptxas overlaps wgmma with nothing (messages C7510 to C7520): slow, and seen to compute wrongly with spills.
  bool wgmmaSerialized() const;
  int spillBytes() const;
};

/// Makes binaries from requests. Implementations are safe to call from several threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;

  /// Whether requests of this kind and target are this compiler's business.
  virtual bool handles(SourceKind kind, std::string_view target) const = 0;
  /// Name and version, part of every key: "nvrtc 13.0.48", "tile 22.1.8 3fa9...".
  virtual std::string identity() const = 0;
  /// kCompile with the compiler's words in `log`; kUnavailable when the library behind it is missing.
  virtual Result<Binary> build(const BuildRequest& request) const = 0;
};

/// Host code loaded into this process. Entries live as long as the object.
class HostCode {
 public:
  /// Runs one program instance: `arguments` are 8-byte slots in the order of the tile program's parameters (pointers,
  /// 64-bit integers, or a float in the low half), `program` is its id in the grid.
  using Entry = void (*)(const std::uint64_t* arguments, std::int64_t program0, std::int64_t program1,
                         std::int64_t program2);

  virtual ~HostCode() = default;
  virtual Result<Entry> find(std::string_view entry) const = 0;
};

/// Loads binaries that the tile compiler made for the host.
class HostLoader {
 public:
  virtual ~HostLoader() = default;
  virtual Result<std::unique_ptr<HostCode>> load(const Binary& binary) const = 0;
};

}  // namespace tilewright
