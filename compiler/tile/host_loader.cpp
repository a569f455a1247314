// Object files of the tile compiler as callable code, through LLVM's ORC.
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include "base/hash.h"
#include "compiler/tile/codegen.h"
#include "compiler/tile/tile_compiler.h"

namespace tilewright {

namespace {

class OrcCode final : public HostCode {
 public:
  explicit OrcCode(std::unique_ptr<llvm::orc::LLJIT> jit) : jit_(std::move(jit)) {}

  Result<Entry> find(std::string_view entry) const override {
    llvm::Expected<llvm::orc::ExecutorAddr> address = jit_->lookup(llvm::StringRef(entry));
    if (!address) {
      return fail(ErrorCode::kNotFound, "cannot find entry {} in host code: {}", entry,
                  llvm::toString(address.takeError()));
    }
    return address->toPtr<Entry>();
  }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

class OrcLoader final : public HostLoader {
 public:
  Result<std::unique_ptr<HostCode>> load(const Binary& binary) const override {
    if (sha256Hex(binary.bytes) != binary.hash) {
      return fail(ErrorCode::kCorrupt, "cannot load host code {}: its bytes do not match its hash", binary.hash);
    }
    const tile::HostTarget target = TW_TRY(tile::hostTarget(binary.target));
    if (!tile::runsHere(target)) {
      return fail(ErrorCode::kUnsupported, "cannot load host code made for {}: this CPU lacks some of its instructions",
                  binary.target);
    }
    tile::initializeBackend();
    auto jit = llvm::orc::LLJITBuilder().create();
    if (!jit) return fail(ErrorCode::kInternal, "cannot create a JIT session: {}", llvm::toString(jit.takeError()));
    const llvm::StringRef bytes(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
    if (llvm::Error error = (*jit)->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(bytes, binary.hash))) {
      return fail(ErrorCode::kCorrupt, "cannot load host code {}: {}", binary.hash, llvm::toString(std::move(error)));
    }
    return std::make_unique<OrcCode>(std::move(*jit));
  }
};

}  // namespace

Result<std::unique_ptr<HostLoader>> createHostLoader() {
  return std::make_unique<OrcLoader>();
}

}  // namespace tilewright
