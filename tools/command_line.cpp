// The one file that includes CLI11. Flags that several verbs share are groups: model shapes, problem, device,
// databases.
//
// CLI11 collects texts (Draft); what they mean (ladders, problems, configurations) is read afterwards, so that every
// message is ours and names the flag.
#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "tools/draft.h"

namespace tilewright {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done; 1 failed (file system, memory, compiler, device, time limit); 2 flags or input break a rule;\n"
    "3 not found, or nothing covers the problem; 4 a driver, toolkit or library is missing, or a file is locked;\n"
    "5 a damaged file, or one of another version.";

// --- Flag groups ---

void addJson(CLI::App& verb, Draft& draft) {
  verb.add_flag("--json", draft.options.json, "print a listing in JSON (docs/formats.md)");
}

void addShapes(CLI::App& verb, Draft& draft) {
  verb.add_option(
          "--model-shapes", draft.options.modelShapes,
          "config.json, a directory with one, a GGUF file, a JSON or CSV list of problems, or - for standard input; "
          "several may be given")
      ->type_name("MODEL");
  const auto ladder = [&](const char* flag, std::string& text, const char* help) {
    verb.add_option(flag, text, help)->type_name("SIZES");
  };
  ladder("--m", draft.rows,
         "row counts of the linears, such as 1,2,64:4096:x2 or 128:512:+128 (default: 1 to 4096, doubling)");
  ladder("--q", draft.queries, "query lengths of attention (default: 1,16,128,512,2048,8192)");
  ladder("--kv", draft.keys, "key lengths of attention (default: 1024 to 131072, up to the model's context)");
  ladder("--batch", draft.batches, "batch sizes of attention (default: 1)");
  verb.add_option("--tp", draft.options.shapes.tensorParallel,
                  "devices that share the model: shapes of one device's part")
      ->type_name("DEVICES")
      ->check(CLI::Range(1, 1024).description(""));
  verb.add_option("--precision", draft.precisions,
                  "loosest arithmetic of q4k_linear: exact (default), fp8, int8, fast; a list "
                  "tunes each")
      ->type_name("PRECISIONS");
  verb.add_flag("--prepared", draft.options.shapes.prepared,
                "q4k_linear on weights that the engine prepares once for each model and gives with every call");
}

void addProblem(CLI::App& verb, Draft& draft, bool withShapes) {
  verb.add_option("problem", draft.problem,
                  "the problem in JSON, such as "
                  R"({"op": "q4k_linear", "n": 14336, "k": 4096, "m": 512})")
      ->type_name("JSON");
  for (const Member& member : problemMembers()) {
    // With model shapes --m, --batch and --precision are ladders, and --prepared is for all of them.
    if (withShapes) continue;
    if (member.kind == MemberKind::kFlag) {
      verb.add_flag(member.flag, draft.flags[member.key], member.help)->group("Problem, instead of JSON");
    } else {
      verb.add_option(member.flag, draft.members[member.key], member.help)
          ->type_name(member.kind == MemberKind::kText ? "NAME" : "SIZE")
          ->group("Problem, instead of JSON");
    }
  }
}

void addPlan(CLI::App& verb, Draft& draft) {
  verb.add_option("--template", draft.options.templateId, "this template, such as attention.tma_sm90")->type_name("ID");
  verb.add_option("--config", draft.configuration, R"(this configuration, such as {"tile_m": 128, "stages": 4})")
      ->type_name("JSON");
}

void addDevice(CLI::App& verb, Draft& draft) {
  verb.add_option("--device", draft.options.device.device, "cpu or cuda:N (default: the first GPU, or the CPU)")
      ->type_name("DEVICE");
}

void addArch(CLI::App& verb, Draft& draft) {
  verb.add_option("--arch", draft.options.device.arch,
                  "target, such as sm_90a, sm_80 or x86-64-v3; goes before the detected one and needs no device")
      ->type_name("TARGET");
}

void addDatabases(CLI::App& verb, Draft& draft) {
  verb.add_option("--db", draft.options.databases.user,
                  "the user's tuning database (default: tilewright/user.twdb in "
                  "XDG_CACHE_HOME or HOME/.cache)")
      ->type_name("FILE");
  verb.add_option("--system-db", draft.options.databases.systems, "read-only database below it; several may be given")
      ->type_name("FILE");
}

// --- Verbs ---

CLI::App& addVerb(CLI::App& app, const char* name, const char* summary, std::string_view examples, Draft& draft,
                  Verb verb) {
  CLI::App& added = *app.add_subcommand(name, summary);
  added.footer(fmt::format("Examples:\n{}\n{}", examples, kExitCodes));
  added.callback([&draft, verb] { draft.options.verb = verb; });
  return added;
}

void addTune(CLI::App& app, Draft& draft) {
  CLI::App& verb =
      addVerb(app, "tune", "Find the best kernels for a model's shapes and keep them in a tuning database",
              "  tilewright tune --model-shapes tools/models/qwen3-0.6b.json\n"
              "  tilewright tune --device cuda:0 --model-shapes model.gguf --m 1,16,512 --precision fp8 --budget 10m\n"
              "  tilewright tune --device cuda:0 --model-shapes model.gguf --precision int8,fp8 --prepared\n"
              "  tilewright tune --model-shapes config.json --dry-run --json\n",
              draft, Verb::kTune);
  addShapes(verb, draft);
  addDevice(verb, draft);
  addArch(verb, draft);
  addDatabases(verb, draft);
  TuneFlags& flags = draft.options.tune;
  verb.add_option("--budget", draft.budget,
                  "time for the sweep: seconds, or with s, m or h; 0 for no limit (default: 60 s on "
                  "the CPU, no limit on a GPU); what remains is listed")
      ->type_name("TIME");
  verb.add_flag("--dry-run", flags.dryRun, "print the derived problems and touch no device");
  verb.add_flag("--compile-only", flags.compileOnly, "compile into the database and measure nothing; needs no GPU");
  verb.add_flag("--force", flags.force, "tune again what the database has already");
  verb.add_option("--jobs", flags.jobs, "threads that compile (default: one per core)")
      ->type_name("COUNT")
      ->check(CLI::Range(0, 1024).description(""));
  verb.add_option("--effort", draft.effort,
                  "quick, normal (default) or full: candidates, runs and time for each problem")
      ->type_name("EFFORT")
      ->check(CLI::IsMember({"quick", "normal", "full"}).description(""));
  verb.add_option("--seed", flags.seed, "of the random operands, and of the candidates drawn at random")
      ->type_name("SEED");
  addJson(verb, draft);
}

void addBench(CLI::App& app, Draft& draft) {
  CLI::App& verb =
      addVerb(app, "bench", "Time the plans that would run, and print JSON Lines",
              "  tilewright bench '{\"op\": \"q4k_linear\", \"n\": 14336, \"k\": 4096, \"m\": 512}'\n"
              "  tilewright bench --model-shapes tools/models/llama-3.1-8b.json --m 1,512 --device cuda:0\n",
              draft, Verb::kBench);
  addProblem(verb, draft, true);
  addShapes(verb, draft);
  addPlan(verb, draft);
  addDevice(verb, draft);
  addDatabases(verb, draft);
  verb.add_option("--repeats", draft.options.bench.repeats, "timed runs of each plan")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 100000).description(""))
      ->capture_default_str();
  verb.add_flag("--all", draft.options.bench.allPlans,
                "also every other template that covers the problem, at its default");
  verb.add_flag("--json", draft.options.json, "accepted for uniformity: the output is always JSON Lines");
}

void addExplain(CLI::App& app, Draft& draft) {
  CLI::App& verb = addVerb(
      app, "explain", "Show which kernel would run for a problem, from which database, and why",
      "  tilewright explain '{\"op\": \"q4k_linear\", \"n\": 14336, \"k\": 4096, \"m\": 512}'\n"
      "  tilewright explain --op q4k_linear --n 14336 --k 4096 --m 512 --precision fp8 --prepared --arch sm_90a\n"
      "  tilewright explain --op attention --q-heads 32 --kv-heads 8 --head-dim 128 --q-len 512 --kv-len 16384 "
      "--causal --arch sm_90a\n",
      draft, Verb::kExplain);
  addProblem(verb, draft, false);
  addDevice(verb, draft);
  addArch(verb, draft);
  addDatabases(verb, draft);
  addJson(verb, draft);
}

void addDevices(CLI::App& app, Draft& draft) {
  CLI::App& verb =
      addVerb(app, "devices", "List the devices of this machine", "  tilewright devices\n", draft, Verb::kDevices);
  addJson(verb, draft);
}

void addCompile(CLI::App& app, Draft& draft) {
  CLI::App& verb = addVerb(
      app, "compile", "Compile the kernels of a plan and print any stage; needs no device",
      "  tilewright compile --arch sm_90a --emit resources '{\"op\": \"q4k_linear\", \"n\": 14336, \"k\": 4096, "
      "\"m\": 512}'\n"
      "  tilewright compile --arch x86-64-v4 --emit llvm --template linear.portable --op linear --n 1024 --k 1024 "
      "--m 64\n",
      draft, Verb::kCompile);
  addProblem(verb, draft, false);
  addPlan(verb, draft);
  addDevice(verb, draft);
  addArch(verb, draft);
  verb.add_option("--emit", draft.options.compile.stage,
                  "request (what is compiled, with its key), source, tile (tile IR), llvm (LLVM IR), assembly, ptx, "
                  "cubin, object "
                  "or resources (registers, spills, shared memory)")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"request", "source", "tile", "llvm", "assembly", "ptx", "cubin", "object", "resources"})
                  .description(""))
      ->capture_default_str();
  verb.add_option("-o,--output", draft.options.compile.output, "file to write (default: standard output)")
      ->type_name("FILE");
  addJson(verb, draft);
}

CLI::App& addDatabaseVerb(CLI::App& db, const char* name, const char* summary, std::string_view examples, Draft& draft,
                          DatabaseCommand::Action action) {
  CLI::App& added = *db.add_subcommand(name, summary);
  added.footer(fmt::format("Examples:\n{}\n{}", examples, kExitCodes));
  added.callback([&draft, action] {
    draft.options.verb = Verb::kDatabase;
    draft.options.database.action = action;
  });
  addJson(added, draft);
  return added;
}

void addDatabase(CLI::App& app, Draft& draft) {
  CLI::App& db = *app.add_subcommand("db", "Look into tuning databases, check, merge and export them");
  db.require_subcommand(1);
  db.footer(fmt::format("Examples:\n  tilewright db show\n  tilewright db export h200.twdb\n{}", kExitCodes));
  DatabaseCommand& command = draft.options.database;
  using Action = DatabaseCommand::Action;

  CLI::App& list = addDatabaseVerb(db, "ls", "One line for each database",
                                   "  tilewright db ls\n  tilewright db ls a.twdb b.twdb\n", draft, Action::kList);
  list.add_option("file", command.files, "databases (default: the user's and --system-db)")->type_name("FILE");
  addDatabases(list, draft);

  CLI::App& show =
      addDatabaseVerb(db, "show", "The winners of a database",
                      "  tilewright db show h200.twdb\n  tilewright db show --records --template attention.tma_sm90\n",
                      draft, Action::kShow);
  show.add_option("file", command.files, "database (default: the user's)")->type_name("FILE")->expected(0, 1);
  show.add_flag("--records", command.records, "every measured plan instead of the winners");
  show.add_option("--problem", draft.databaseProblem, "only this problem")->type_name("JSON");
  show.add_option("--template", command.templateId, "only this template")->type_name("ID");
  addDatabases(show, draft);

  CLI::App& verify =
      addDatabaseVerb(db, "verify", "Check structure, hashes and references; exit code 5 if anything is damaged",
                      "  tilewright db verify h200.twdb\n", draft, Action::kVerify);
  verify.add_option("file", command.files, "databases (default: the user's)")->type_name("FILE");
  addDatabases(verify, draft);

  CLI::App& merge = addDatabaseVerb(
      db, "merge", "Add the results of other databases to one",
      "  tilewright db merge other.twdb\n  tilewright db merge a.twdb b.twdb --db all.twdb\n", draft, Action::kMerge);
  merge.add_option("source", command.files, "databases to add")->type_name("FILE")->required();
  addDatabases(merge, draft);

  CLI::App& exporting =
      addDatabaseVerb(db, "export", "Write a closed file to ship: winners, their binaries and the defaults",
                      "  tilewright db export h200.twdb\n"
                      "  tilewright db export h200.twdb --db mine.twdb --winners-only --overwrite\n",
                      draft, Action::kExport);
  exporting.add_option("target", command.files, "file to write")->type_name("FILE")->expected(1)->required();
  exporting.add_flag("--winners-only", command.winnersOnly, "leave out measurements that did not win");
  exporting.add_flag("--overwrite", command.overwrite, "replace the file if it exists");
  addDatabases(exporting, draft);
}

void addTuneWorker(CLI::App& app, Draft& draft) {
  CLI::App& verb = *app.add_subcommand("tune-worker", "Measures for tune and bench")->group("");
  verb.callback([&draft] { draft.options.verb = Verb::kTuneWorker; });
  addDevice(verb, draft);
}

// CLI11's sentence in the form of our messages, with the place of the help.
std::string messageOf(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* verb = &app;
  std::string path;
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().back();
    path += " " + verb->get_name();
  }
  std::string message = error.what();
  const auto unknown = verb->remaining();
  if (verb->get_require_subcommand_min() > 0 && !unknown.empty()) {
    message = fmt::format("unknown verb '{}'", unknown.front());
  } else if (message.size() > 1 && std::islower(static_cast<unsigned char>(message[1])) != 0) {
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  }
  std::ranges::replace(message, '\n', ' ');
  return fmt::format("{} (see tilewright{} --help)", message, path);
}

// An empty value is a shell variable that is not set, and would pass for a flag that is not given.
Result<void> refuseEmptyValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (std::ranges::any_of(option->results(), [](const std::string& value) { return value.empty(); })) {
      return fail(ErrorCode::kInvalidArgument, "{}: the value is empty", option->get_name());
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) TW_TRY(refuseEmptyValues(*verb));
  return {};
}

}  // namespace

Result<std::variant<Options, HelpText>> parseCommandLine(std::span<const char* const> arguments,
                                                         const Environment& environment) {
  Draft draft;
  CLI::App app("Fast GPU kernels for quantized transformer inference: tune, look up, launch", "tilewright");
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  app.footer(
      fmt::format("Examples:\n  tilewright tune --model-shapes tools/models/qwen3-0.6b.json\n"
                  "  tilewright tune --help\n{}",
                  kExitCodes));
  app.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
  try {
    addTune(app, draft);
    addExplain(app, draft);
    addBench(app, draft);
    addDatabase(app, draft);
    addDevices(app, draft);
    addCompile(app, draft);
    addTuneWorker(app, draft);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return HelpText{fmt::format("{}\n", version.what())};
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}", messageOf(error, app));
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInternal, "{}", error.what());
  }
  TW_TRY(refuseEmptyValues(app));
  return TW_TRY(finishDraft(std::move(draft), environment));
}

}  // namespace tilewright
