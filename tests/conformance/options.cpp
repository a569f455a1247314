#include "tests/conformance/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace tilewright::conformance {

Result<Options> parseOptions(int& argc, char** argv) {
  Options options;
  CLI::App app(
      "Runs every template of this build on the cases of its operation and checks each output.\n"
      "Example: conformance --device cuda:0 --spread 4 --gtest_filter='attention.*'");
  app.allow_extras();
  app.add_option("--device", options.device, "cpu or cuda:<number>")->capture_default_str();
  app.add_option("--spread", options.spread, "configurations per case beside the default one")->capture_default_str();
  app.add_option("--repeats", options.repeats, "further runs that must give the same bits")->capture_default_str();
  app.add_flag("--huge", options.huge, "run the cases beyond 2^31 elements too");
  app.add_option("--max-flops", options.maxFlops, "leave larger problems out; 0: none")->capture_default_str();
  app.add_option("--budget", options.budget, "multiply-adds of a case's expectation")->capture_default_str();
  app.add_option("--cubins", options.cubins, "folder of builds, read and filled");
  app.add_flag("!--no-build", options.build, "compile nothing, take builds from --cubins alone");
  app.add_flag("--compile-only", options.compileOnly, "fill --cubins for --target, run nothing");
  app.add_option("--target", options.target, "what --compile-only builds for")->capture_default_str();
  app.add_option("--nvrtc", options.nvrtc, "libnvrtc to open");
  app.add_option("--sources", options.sources, "root of a source tree whose kernels replace the embedded ones");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return fail(ErrorCode::kNotFound, "{}", app.help());
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  // What is left is GoogleTest's.
  const std::vector<std::string> rest = app.remaining();
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::ranges::find(rest, argv[i]) != rest.end()) argv[kept++] = argv[i];
  }
  argc = kept;
  if (options.compileOnly && options.cubins.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--compile-only needs --cubins, the folder to fill");
  }
  return options;
}

}  // namespace tilewright::conformance
