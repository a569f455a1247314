// What the command line asked for, as plain values: parsed once (command_line.cpp) and passed down. Nothing below reads
// flags or the environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autotune/race_plan.h"
#include "base/problem.h"
#include "templates/configuration.h"
#include "tools/environment.h"
#include "tools/model_shapes/derive.h"

namespace tilewright {

enum class Verb : std::uint8_t { kTune, kBench, kExplain, kDatabase, kDevices, kCompile, kTuneWorker };

/// Where kernels run or are compiled for.
struct DeviceFlags {
  std::string device;  ///< "cpu", "cuda:N"; empty: the first GPU, or the CPU
  std::string arch;    ///< an explicit target, such as "sm_90a"; empty: the device's own
};

/// Tuning databases, from the top: the user's, then the read-only ones below it.
struct DatabaseFlags {
  std::optional<std::filesystem::path> user;   ///< --db; without it userDatabasePath(environment)
  std::vector<std::filesystem::path> systems;  ///< --system-db, upper first
};

struct TuneFlags {
  std::optional<double> budgetSeconds;  ///< --budget; 0 means none, nothing the device's default
  bool dryRun = false;                  ///< print the derived problems; touches no device
  bool compileOnly = false;             ///< fill the database with binaries; needs no GPU
  bool force = false;                   ///< tune again what the database has
  int jobs = 0;                         ///< threads that compile; 0: one per core
  autotune::Effort effort = autotune::Effort::kNormal;
  std::uint64_t seed = 1;  ///< of the random operands and of the candidates that are drawn at random
};

struct BenchFlags {
  int repeats = 30;       ///< timed runs of each plan
  bool allPlans = false;  ///< every template's default beside the winner
};

struct DatabaseCommand {
  enum class Action : std::uint8_t { kList, kShow, kVerify, kMerge, kExport };

  Action action = Action::kList;
  std::vector<std::filesystem::path> files;  ///< positional arguments; the first is the target of merge and export
  std::string problem;                       ///< show: only records of this problem, canonical
  std::string templateId;                    ///< show: only records of this template
  bool records = false;                      ///< show: every record, not winners alone
  bool winnersOnly = false;                  ///< export
  bool overwrite = false;                    ///< export
};

struct CompileFlags {
  std::string stage = "resources";              ///< --emit
  std::optional<std::filesystem::path> output;  ///< --output; without it standard output
};

struct Options {
  Verb verb = Verb::kDevices;
  bool json = false;
  std::vector<std::string> modelShapes;  ///< --model-shapes, each as given
  ShapeOptions shapes;
  std::optional<Problem> problem;              ///< a problem given as JSON or by flags: explain, bench, compile
  std::string templateId;                      ///< --template; empty: the dispatcher's choice
  std::optional<Configuration> configuration;  ///< --config; nothing: the winner's or the template's default
  DeviceFlags device;
  DatabaseFlags databases;
  TuneFlags tune;
  BenchFlags bench;
  DatabaseCommand database;
  CompileFlags compile;
  Environment environment;
};

}  // namespace tilewright
