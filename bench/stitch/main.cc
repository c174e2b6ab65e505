// stitch_bench: a model stitched to itself, or to another one through a projector, in the processes
// that a launch makes, against itself alone.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/engine/cores.h"
#include "bench/stitch/pinned_launch.h"
#include "bench/stitch/stitch_figures.h"
#include "launcher/command.h"
#include "launcher/download.h"

namespace suture {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model = "qwen2.5-coder-1.5b-instruct";
  std::string slave;      // empty = the same model
  std::string projector;  // empty = none
  std::string program;
  int64_t tokens = 1024;
  int64_t generated = 64;
  int pairs = 10;
  bool json = false;
};

void progress(const std::string& text) { fmt::print(stderr, "{}\n", text); }

// For topology files, gone with the object.
class OwnFolder {
 public:
  OwnFolder() : path_(fs::temp_directory_path() / fmt::format("suture-stitch-{}", ::getpid())) {
    fs::create_directory(path_);
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// All wait idle but for the one that is asked.
struct Launches {
  PinnedLaunch alone;
  PinnedLaunch stitched;
  PinnedLaunch silent;
};

Result<Launches> start(const Options& options, const fs::path& folder) {
  SUTURE_ASSIGN_OR_RETURN(const fs::path model, resolve_model(options.model));
  SUTURE_ASSIGN_OR_RETURN(const std::vector<int> cores, first_cores(2));
  PinnedLaunchSpec spec;
  spec.model = model;
  if (!options.slave.empty()) {
    SUTURE_ASSIGN_OR_RETURN(const fs::path slave, resolve_model(options.slave));
    spec.slave = slave;
  }
  if (!options.projector.empty()) spec.projector = fs::absolute(options.projector);
  spec.program = options.program;
  spec.folder = folder;
  spec.max_tokens = 2 * options.tokens + options.generated;
  spec.master_core = cores[0];
  spec.other_core = cores[1];
  const auto launch = [&](const std::string& what, const std::string& gain) {
    progress("starting: " + what);
    spec.name = fmt::format("stitch-{}-{}", what, ::getpid());
    spec.slave_gain = gain;
    return PinnedLaunch::start(spec);
  };
  SUTURE_ASSIGN_OR_RETURN(auto alone, launch("alone", ""));
  SUTURE_ASSIGN_OR_RETURN(auto stitched, launch("stitched", "0"));
  SUTURE_ASSIGN_OR_RETURN(auto silent, launch("silent", "-inf"));
  return Launches{std::move(alone), std::move(stitched), std::move(silent)};
}

// Forwards in even rounds and backwards in odd ones, so that nothing always comes first.
Result<StitchRound> run_round(Launches& launches, const Options& options, bool forwards) {
  StitchRound round;
  struct Step {
    PinnedLaunch& launch;
    int64_t tokens;
    double& rate;
  };
  std::vector<Step> steps = {{launches.stitched, options.tokens, round.stitched},
                             {launches.alone, 2 * options.tokens, round.alone_as_many},
                             {launches.alone, options.tokens, round.alone},
                             {launches.silent, options.tokens, round.silent}};
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[forwards ? i : steps.size() - 1 - i];
    SUTURE_ASSIGN_OR_RETURN(step.rate, step.launch.decode_rate(step.tokens, options.generated));
  }
  return round;
}

Result<StitchFigures> run(const Options& options) {
  const OwnFolder folder;
  SUTURE_ASSIGN_OR_RETURN(Launches launches, start(options, folder.path()));
  std::vector<StitchRound> rounds;
  for (int i = 0; i < options.pairs; ++i) {
    progress(fmt::format("round {} of {}", i + 1, options.pairs));
    SUTURE_ASSIGN_OR_RETURN(rounds.emplace_back(), run_round(launches, options, i % 2 == 0));
  }
  for (PinnedLaunch* launch : {&launches.alone, &launches.stitched, &launches.silent})
    SUTURE_RETURN_IF_ERROR(launch->end());
  StitchFigures figures = stitch_figures(rounds);
  figures.model = options.model;
  figures.slave = options.slave.empty() ? options.model : options.slave;
  figures.tokens = options.tokens;
  return figures;
}

int main_with(const Options& options) {
  const auto figures = run(options);
  if (!figures) {
    print_failure(figures.error(), options.json);
    return kExitFailed;
  }
  if (options.json)
    print_json(to_json(*figures));
  else
    fmt::print("{}", stitch_table(*figures));
  return kExitOk;
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a launch that has ended is an error value
  suture::Options options;
  options.program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "suture")
          .string();
  CLI::App app("What it costs a master to be stitched to a slave that follows it");
  app.add_option("--model", options.model, "Master: name from `suture models list` or .gguf file")
      ->capture_default_str();
  app.add_option("--slave", options.slave, "Slave; by default the master's model");
  app.add_option("--projector", options.projector,
                 "File (`suture fit`) that maps the slave's rows: mode \"project\"")
      ->check(CLI::ExistingFile);
  app.add_option("--suture", options.program, "The suture program")->capture_default_str();
  app.add_option("--tokens", options.tokens,
                 "Tokens of the master's own, and as many of the slave's")
      ->check(CLI::Range(128, 1 << 18))
      ->capture_default_str();
  app.add_option("--generate", options.generated, "Tokens to generate in each measurement")
      ->check(CLI::Range(8, 512))
      ->capture_default_str();
  app.add_option("--pairs", options.pairs, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "One JSON value on standard output");
  CLI11_PARSE(app, argc, argv);
  return suture::main_with(options);
}
