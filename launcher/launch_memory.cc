#include "launcher/launch_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "actors/launch_preparation.h"
#include "bus/slab.h"
#include "fusion/projection.h"
#include "fusion/projector_file.h"
#include "models/checkpoint.h"
#include "models/first_layer.h"
#include "models/model_memory.h"

namespace suture {
namespace {

// Measured (launcher/launch_memory_real_test.cc compares the sum with real processes).
constexpr uint64_t kProgramBytes = 24'000'000;   // code and libraries, one copy for all processes
constexpr uint64_t kLauncherBytes = 3'000'000;   // heap without the tokenizer
constexpr uint64_t kBytesPerPiece = 190;         // of a tokenizer's vocabulary
constexpr uint64_t kWorkerBytes = 3'500'000;     // heap of a model process
constexpr uint64_t kBytesPerThread = 1'000'000;  // stack, and what kernels keep from call to call

// What a file says; several models may run it.
struct FileMemory {
  std::string first_user;
  ModelMemory model;
  ModelConfig config;
};

Result<FileMemory> read_file_memory(const ModelSpec& spec) {
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(spec.path));
  SUTURE_RETURN_IF_ERROR(check_runnable(checkpoint->config(), spec.path.string()));
  FileMemory file;
  file.first_user = spec.name;
  SUTURE_ASSIGN_OR_RETURN(file.model, model_memory(*checkpoint));
  file.config = checkpoint->config();
  return file;
}

Result<ProcessMemory> process_memory(const LaunchSpec& spec, const ModelSpec& model,
                                     const FileMemory& file) {
  ProcessMemory process;
  process.name = model.name;
  if (file.first_user == model.name)
    process.weight_bytes = file.model.mapped_bytes + file.model.packed_bytes;
  else
    process.shares_weights_with = file.first_user;
  process.weight_bytes += file.model.converted_bytes;
  SUTURE_ASSIGN_OR_RETURN(process.kv_bytes,
                          Slab::memory_bytes_for({.shape = file.config.kv_shape(),
                                                  .max_seq_len = spec.longest_sequence(model),
                                                  .max_sequences = spec.max_sequences,
                                                  .owner = {}}));
  process.activation_bytes = file.model.activation_bytes;
  process.logits_bytes = file.model.logits_bytes;
  process.runtime_bytes = static_cast<uint64_t>(model.threads) * kBytesPerThread;
  if (spec.placement == Placement::kProcesses) process.runtime_bytes += kWorkerBytes;
  return process;
}

// What is needed, besides, to map a slave's rows to the master's kind, in the process that does it:
// a slab, or for each request that runs memory of its own.
Status add_projection(const LaunchSpec& spec, const ModelSpec& slave, const FileMemory& master,
                      ProcessMemory& process) {
  SUTURE_ASSIGN_OR_RETURN(const Projector projector, read_projector(slave.fusion.projector));
  const KvShape kv_shape = master.config.kv_shape();
  SUTURE_ASSIGN_OR_RETURN(const uint64_t slab,
                          Slab::memory_bytes_for({.shape = kv_shape,
                                                  .max_seq_len = spec.longest_sequence(slave),
                                                  .max_sequences = spec.max_sequences,
                                                  .owner = {}}));
  const uint64_t own = static_cast<uint64_t>(kv_shape.n_layers) *
                       static_cast<uint64_t>(kv_shape.block_bytes()) *
                       static_cast<uint64_t>(kv_blocks_for(spec.max_seq_len)) *
                       static_cast<uint64_t>(spec.max_sequences);
  process.kv_bytes += slave.fusion.apply == ProjectorUse::kWriter ? slab : own;
  process.weight_bytes +=
      static_cast<uint64_t>(projector.weight_bytes()) + Projection::map_bytes(projector);
  process.activation_bytes += Projection::scratch_bytes(projector, kPrefillGrid);
  if (projector.own_first_layer)
    process.activation_bytes += FirstLayer::scratch_bytes(master.config, kPrefillGrid);
  return {};
}

// Of the tokenizers that the launcher keeps: the master's, and those of slaves that say something.
uint64_t pieces_in_use(const LaunchSpec& spec,
                       const std::map<std::filesystem::path, FileMemory>& files) {
  std::set<std::filesystem::path> used;
  for (const ModelSpec& model : spec.models)
    if (!model.is_slave() || model.drafts()) used.insert(model.path);
  uint64_t pieces = 0;
  for (const std::filesystem::path& path : used)
    pieces += static_cast<uint64_t>(files.at(path).config.vocab_size);
  return pieces;
}

uint64_t sum(const std::vector<ProcessMemory>& processes, uint64_t (*part)(const ProcessMemory&)) {
  return std::accumulate(
      processes.begin(), processes.end(), uint64_t{0},
      [part](uint64_t total, const ProcessMemory& process) { return total + part(process); });
}

// About the largest value of a setting to which all K/V is proportional; 0 if even that does not
// help. A hundredth is left for what lies beside K/V and does not shrink with it.
int64_t largest_that_fits(const LaunchMemory& memory, int64_t now, int64_t step) {
  const uint64_t rest = memory.total_bytes() - memory.kv_bytes();
  if (rest >= memory.available_bytes || memory.kv_bytes() == 0) return 0;
  const double share =
      static_cast<double>(memory.available_bytes - rest) / static_cast<double>(memory.kv_bytes());
  return static_cast<int64_t>(0.99 * static_cast<double>(now) * share) / step * step;
}

std::string remedy(const LaunchMemory& memory, const LaunchSpec& spec) {
  constexpr int64_t kUsefulTokens = 256;
  std::vector<std::string> ways;
  if (const int64_t tokens = largest_that_fits(memory, spec.max_seq_len, kUsefulTokens); tokens > 0)
    ways.push_back(fmt::format("set max_seq_len = {} in [bus]", tokens));
  if (const int64_t sequences = largest_that_fits(memory, spec.max_sequences, 1); sequences > 0)
    ways.push_back(fmt::format("set max_sequences = {} in [bus]", sequences));
  for (size_t i = 0; i < spec.models.size(); ++i)
    if (spec.models[i].role == Role::kSlave)
      ways.push_back(fmt::format("leave out slave '{}' ({} MB)", spec.models[i].name,
                                 memory.processes[i].total_bytes() / 1'000'000));
  ways.emplace_back("choose smaller models");
  ways.emplace_back("start all the same with --force");
  return fmt::format("{}", fmt::join(ways, "; or "));
}

}  // namespace

uint64_t LaunchMemory::total_bytes() const {
  return sum(processes, [](const ProcessMemory& process) { return process.total_bytes(); });
}

uint64_t LaunchMemory::kv_bytes() const {
  return sum(processes, [](const ProcessMemory& process) { return process.kv_bytes; });
}

Result<LaunchMemory> launch_memory(const LaunchSpec& topology, uint64_t available_bytes) {
  SUTURE_ASSIGN_OR_RETURN(const LaunchSpec spec, settle_modes(topology));
  LaunchMemory memory;
  memory.available_bytes = available_bytes;
  std::map<std::filesystem::path, FileMemory> files;
  for (const ModelSpec& model : spec.models) {
    if (!files.contains(model.path)) {
      SUTURE_ASSIGN_OR_RETURN(files[model.path], read_file_memory(model));
    }
    SUTURE_ASSIGN_OR_RETURN(memory.processes.emplace_back(),
                            process_memory(spec, model, files.at(model.path)));
  }
  const FileMemory& master = files.at(spec.master().path);
  for (size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& slave = spec.models[i];
    if (!slave.projects()) continue;
    const bool by_writer = slave.fusion.apply == ProjectorUse::kWriter;
    SUTURE_RETURN_IF_ERROR(
        add_projection(spec, slave, master, memory.processes[by_writer ? i : spec.master_index()]));
  }
  ProcessMemory launcher;
  launcher.name = "launcher";
  launcher.runtime_bytes =
      kProgramBytes + kLauncherBytes + kBytesPerPiece * pieces_in_use(spec, files);
  memory.processes.push_back(std::move(launcher));
  return memory;
}

Status check_memory(const LaunchMemory& memory, const LaunchSpec& spec) {
  if (memory.total_bytes() <= memory.available_bytes) return {};
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("{} MB of memory are needed, {} MB are free",
                          memory.total_bytes() / 1'000'000, memory.available_bytes / 1'000'000),
              spec.topology_path.string(), remedy(memory, spec));
}

std::string memory_table(const LaunchMemory& memory) {
  constexpr std::string_view kRow = "  {:<20} {:>9} {:>9} {:>12} {:>8} {:>9} {:>9}\n";
  const auto megabytes = [](uint64_t bytes) { return fmt::format("{:.0f}", bytes / 1e6); };
  std::string text =
      fmt::format(kRow, "memory (MB)", "weights", "K/V", "activations", "logits", "runtime", "all");
  for (const ProcessMemory& process : memory.processes)
    text += fmt::format(
        kRow, process.name,
        process.shares_weights_with.empty() ? megabytes(process.weight_bytes) : "shared",
        megabytes(process.kv_bytes), megabytes(process.activation_bytes),
        megabytes(process.logits_bytes), megabytes(process.runtime_bytes),
        megabytes(process.total_bytes()));
  return text + fmt::format("  {} MB needed, {} MB free\n", megabytes(memory.total_bytes()),
                            megabytes(memory.available_bytes));
}

nlohmann::json to_json(const LaunchMemory& memory) {
  nlohmann::json processes = nlohmann::json::array();
  for (const ProcessMemory& process : memory.processes) {
    nlohmann::json json = {{"name", process.name},
                           {"weight_bytes", process.weight_bytes},
                           {"kv_bytes", process.kv_bytes},
                           {"activation_bytes", process.activation_bytes},
                           {"logits_bytes", process.logits_bytes},
                           {"runtime_bytes", process.runtime_bytes},
                           {"total_bytes", process.total_bytes()}};
    if (!process.shares_weights_with.empty())
      json["shares_weights_with"] = process.shares_weights_with;
    processes.push_back(std::move(json));
  }
  return {{"processes", std::move(processes)},
          {"total_bytes", memory.total_bytes()},
          {"available_bytes", memory.available_bytes}};
}

}  // namespace suture
