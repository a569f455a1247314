// The `tilewright` program: parses the command line and runs one verb.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "tools/command_line.h"
#include "tools/table.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

Result<ExitCode> runVerb(const Options& options) {
  switch (options.verb) {
    case Verb::kTune:
      return runTune(options);
    case Verb::kBench:
      return runBench(options);
    case Verb::kExplain:
      return runExplain(options);
    case Verb::kDatabase:
      return runDatabase(options);
    case Verb::kDevices:
      return runDevices(options);
    case Verb::kCompile:
      return runCompile(options);
    case Verb::kTuneWorker:
      return runTuneWorker(options);
  }
  return fail(ErrorCode::kInternal, "unknown verb {}", static_cast<int>(options.verb));
}

Result<ExitCode> runProgram(std::span<const char* const> arguments) {
  const auto parsed = TW_TRY(parseCommandLine(arguments, readEnvironment()));
  if (const auto* help = std::get_if<HelpText>(&parsed)) {
    fmt::print("{}", help->text);
    return kExitSuccess;
  }
  return runVerb(std::get<Options>(parsed));
}

int report(const Error& error) {
  fmt::print(stderr, "tilewright: {}\n", printable(error.message));
  if (!error.log.empty()) fmt::print(stderr, "{}{}", error.log, error.log.ends_with('\n') ? "" : "\n");
  return exitCodeOf(error.code);
}

}  // namespace
}  // namespace tilewright

int main(int argumentCount, char** arguments) {
  using namespace tilewright;
  try {
    const std::span<const char* const> all(arguments, static_cast<std::size_t>(argumentCount));
    const Result<ExitCode> code = runProgram(all.subspan(all.empty() ? 0 : 1));
    if (!code) return report(code.error());
    // What was printed must have arrived: a full disk behind a redirection is a failure.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return report({ErrorCode::kIo, "cannot write to standard output"});
    }
    return *code;
  } catch (const std::bad_alloc&) {
    return report({ErrorCode::kOutOfMemory, "out of host memory"});
  } catch (const std::exception& exception) {
    return report({ErrorCode::kInternal, exception.what()});
  }
}
