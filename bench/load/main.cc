// load_bench: many clients of one launch, each answer checked against what it is alone.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "actors/trace_log.h"
#include "bench/load/launched.h"
#include "bench/load/report.h"
#include "bench/load/stage.h"
#include "bus/doorbell.h"
#include "launcher/command.h"
#include "launcher/manifest.h"

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";
constexpr int kSkipped = 77;  // for ctest
constexpr std::chrono::seconds kSettleBound{60};

// Fewer places than 16 clients want, so that some are refused; K/V for all of their conversations.
constexpr std::string_view kTopology = R"([bus]
max_seq_len = 1024
max_sequences = 8
max_queue = 4

[[model]]
name = "master"
role = "master"
path = "smollm2-135m-instruct"

[[model]]
name = "reader"
role = "slave"
path = "smollm2-135m-instruct"
documents = ["log.txt"]
fusion = { mode = "concat", position = "prefix" }
)";

constexpr std::string_view kDocument =
    "The ferry Aurelia left the harbour at seven with 212 passengers and a crew of nine. The pilot "
    "noted fog at the northern buoy, and the keeper lit the lamp before dawn.\n";

struct Options {
  std::string attach_name;
  std::string topology;
  std::string program;
  std::vector<size_t> clients = {4, 16};
  double seconds = 60;
  uint64_t seed = 1;
  bool json = false;
};

void progress(const std::string& text) { fmt::print(stderr, "{}\n", text); }

// A folder for the default topology, gone with the object.
class OwnFolder {
 public:
  OwnFolder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("suture-load-{}", ::getpid())) {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ / "load.toml") << kTopology;
    std::ofstream(path_ / "log.txt") << kDocument;
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  std::filesystem::path topology() const { return path_ / "load.toml"; }

 private:
  std::filesystem::path path_;
};

// Files and threads that each process needs when nobody asks.
using AtRest = std::vector<ProcessSample>;

AtRest look(const std::vector<WatchedProcess>& processes) {
  AtRest samples;
  for (const WatchedProcess& process : processes) samples.push_back(sample_process(process.pid));
  return samples;
}

// What requests and conversations have left behind in the launch; empty when nothing is left.
Result<std::string> left_behind(const std::string& launch) {
  SUTURE_ASSIGN_OR_RETURN(LoadConnection connection, LoadConnection::open(launch));
  SUTURE_ASSIGN_OR_RETURN(const LaunchSnapshot snapshot, connection.snapshot());
  if (snapshot.requests != 0) return fmt::format("{} requests", snapshot.requests);
  for (const ProcessSnapshot& process : snapshot.processes) {
    if (process.state == ProcessState::kLost)
      return fmt::format("{} lost: {}", process.name, process.why);
    for (const StreamFigures& stream : process.slab.streams)
      if (stream.request != 0)
        return fmt::format("K/V of request {} in {}", stream.request, process.name);
  }
  return std::string();
}

std::string more_than(const AtRest& rest, const std::vector<WatchedProcess>& processes) {
  const AtRest now = look(processes);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].files > rest[i].files)
      return fmt::format("{} files of {}, {} before", now[i].files, processes[i].name,
                         rest[i].files);
    if (now[i].threads > rest[i].threads)
      return fmt::format("{} threads of {}, {} before", now[i].threads, processes[i].name,
                         rest[i].threads);
  }
  return {};
}

// Waits until `find` finds nothing any more; what it still finds at the bound.
template <typename Find>
std::string after_settling(Find find) {
  const Deadline bound = deadline_in(kSettleBound);
  std::string found = find();
  while (!found.empty() && std::chrono::steady_clock::now() < bound) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    found = find();
  }
  return found;
}

std::string wait_until_idle(const std::string& launch) {
  return after_settling([&] {
    const auto found = left_behind(launch);
    return found ? *found : found.error().message();
  });
}

// Closed connections end within a moment: the fewest files of a few looks count.
AtRest at_rest(const std::vector<WatchedProcess>& processes) {
  AtRest rest = look(processes);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const AtRest now = look(processes);
    for (size_t p = 0; p < rest.size(); ++p) {
      rest[p].files = std::min(rest[p].files, now[p].files);
      rest[p].threads = std::min(rest[p].threads, now[p].threads);
    }
  }
  return rest;
}

struct Prepared {
  std::vector<LoadScript> scripts;
  std::vector<Reference> references;
  std::vector<WatchedProcess> processes;
  AtRest rest;
};

Result<Prepared> prepare(const Options& options, const LaunchProcess& launch) {
  Prepared prepared;
  prepared.scripts = load_scripts(options.seed);
  progress("taking the answers of every question alone");
  SUTURE_ASSIGN_OR_RETURN(prepared.references, take_references(launch.name(), prepared.scripts));
  SUTURE_ASSIGN_OR_RETURN(prepared.processes, launch.processes());
  if (const std::string left = wait_until_idle(launch.name()); !left.empty())
    return fail(ErrorCode::kBusy, "the launch does not come to rest: " + left, launch.name());
  prepared.rest = at_rest(prepared.processes);
  return prepared;
}

StageReport measure(const Options& options, const std::string& launch, const Prepared& prepared,
                    size_t clients) {
  progress(fmt::format("{} clients for {} s", clients, options.seconds));
  const auto interval = std::chrono::milliseconds(options.seconds > 300 ? 5000 : 500);
  StageReport report;
  ProcessWatch watch(prepared.processes, interval);
  const int64_t start_ns = monotonic_ns();
  report.clients = run_stage({launch, clients, options.seconds, options.seed}, prepared.scripts,
                             prepared.references);
  report.seconds = seconds_since(start_ns);
  report.processes = watch.finish();
  report.faults = faults_of(report);
  std::string left = wait_until_idle(launch);
  if (left.empty())
    left = after_settling([&] { return more_than(prepared.rest, prepared.processes); });
  if (!left.empty()) report.faults.push_back("left behind: " + left);
  return report;
}

Result<bool> run(const Options& options, LaunchProcess launch) {
  SUTURE_ASSIGN_OR_RETURN(const Prepared prepared, prepare(options, launch));
  nlohmann::json stages = nlohmann::json::array();
  bool sound = true;
  for (const size_t clients : options.clients) {
    const StageReport report = measure(options, launch.name(), prepared, clients);
    sound = sound && report.faults.empty();
    stages.push_back(to_json(report));
    if (!options.json) fmt::print("{}", stage_table(report));
    std::fflush(stdout);
  }
  SUTURE_RETURN_IF_ERROR(launch.end());
  if (options.json)
    print_json({{"sound", sound}, {"seed", options.seed}, {"stages", std::move(stages)}});
  return sound;
}

Result<LaunchProcess> find_launch(const Options& options, const OwnFolder& folder) {
  if (!options.attach_name.empty()) return LaunchProcess::attach(options.attach_name);
  const std::filesystem::path topology =
      options.topology.empty() ? folder.topology() : std::filesystem::path(options.topology);
  progress("starting the launch");
  return LaunchProcess::start(options.program, topology, fmt::format("load-{}", ::getpid()));
}

int main_with(const Options& options) {
  const auto model = cached_model_path(*find_model(kModel), model_cache_folder());
  const bool own = options.attach_name.empty() && options.topology.empty();
  if (own && !std::filesystem::exists(model)) {
    progress(
        fmt::format("skipped: {} is not there: suture models pull {}", model.string(), kModel));
    return kSkipped;
  }
  const OwnFolder folder;
  auto launch = find_launch(options, folder);
  const Result<bool> sound = launch ? run(options, std::move(*launch))
                                    : Result<bool>(tl::unexpected<Error>(launch.error()));
  if (!sound) {
    print_failure(sound.error(), options.json);
    return kExitFailed;
  }
  return *sound ? kExitOk : kExitFailed;
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  suture::Options options;
  options.program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "suture").string();
  CLI::App app("Many clients of one launch: are all answers right, and how long do they take?");
  auto* topology = app.add_option("--topology", options.topology,
                                  "Topology to launch; a small one of its own by default");
  app.add_option("--attach", options.attach_name, "Ask a running launch that nobody else asks")
      ->excludes(topology);
  app.add_option("--suture", options.program, "The suture program")->capture_default_str();
  app.add_option("--clients", options.clients, "Clients, one number for each stage")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Length of each stage")->capture_default_str();
  app.add_option("--seed", options.seed, "Questions and interruptions follow from it")
      ->capture_default_str();
  app.add_flag("--json", options.json, "One JSON value on standard output");
  CLI11_PARSE(app, argc, argv);
  return suture::main_with(options);
}
