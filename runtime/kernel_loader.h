// Makes a plan's kernels ready to run: finds the binary of each build request in the database layers, or compiles it,
// and loads it on the device. Plans that need the same binary share it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"
#include "cache/layers.h"
#include "runtime/device.h"
#include "runtime/selection.h"
#include "templates/sources.h"

namespace tilewright {

/// The kernels of a plan, in the order of the entries of its build requests.
struct LoadedKernels {
  std::vector<KernelHandle> handles;
  std::vector<std::shared_ptr<LoadedBinary>> binaries;  ///< keep the handles valid
  std::vector<std::string> origins;  ///< of each binary: "database /usr/share/h200.twdb", "compiled by nvrtc 13.0.88"
};

/// Safe to use from several threads; different binaries are compiled at the same time.
class KernelLoader {
 public:
  /// All references must outlive the loader and what it loaded. `compilers` may be empty;
  /// `missingCompilers` says why others could not be opened. What is compiled goes into `buildCache`, which may be null
  /// and is asked below the layers.
  KernelLoader(Device& device, const DatabaseLayers& layers, std::shared_ptr<Database> buildCache,
               std::vector<const Compiler*> compilers, std::vector<std::string> missingCompilers,
               const SourceCatalog& sources)
      : device_(device),
        layers_(layers),
        buildCache_(std::move(buildCache)),
        compilers_(std::move(compilers)),
        missingCompilers_(std::move(missingCompilers)),
        sources_(sources) {}

  /// kUnsupported if no layer has the binary and no compiler makes it, or if what was found breaks a constraint of the
  /// template; kCompile with the compiler's log; whatever loading answers. `warnings` receives damaged database rows,
  /// and why a binary could not be kept.
  Result<LoadedKernels> load(const Candidate& candidate, std::vector<std::string>& warnings);

 private:
  struct Loaded {
    std::shared_ptr<LoadedBinary> binary;
    std::vector<KernelHandle> handles;  // Of the request's entries.
    std::string origin;
  };
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Loaded> loaded;
  };

  Result<const Loaded*> loadRequest(const Template& kernelTemplate, const BuildRequest& request,
                                    std::vector<std::string>& warnings);
  Result<std::pair<Binary, std::string>> obtain(const Template& kernelTemplate, const BuildRequest& request,
                                                std::vector<std::string>& warnings) const;

  Device& device_;
  const DatabaseLayers& layers_;
  std::shared_ptr<Database> buildCache_;
  std::vector<const Compiler*> compilers_;
  std::vector<std::string> missingCompilers_;
  const SourceCatalog& sources_;
  std::mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_;  // By everything in a request that varies within a process.
};

}  // namespace tilewright
