#include "launcher/launch_memory.h"

#include <fmt/format.h>

#include <set>

#include "bus/slab.h"
#include "models/checkpoint.h"

namespace suture {

Result<std::vector<MemoryNeed>> launch_memory(const LaunchSpec& spec) {
  std::vector<MemoryNeed> needs;
  std::set<std::filesystem::path> counted;
  for (const ModelSpec& model : spec.models) {
    SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(model.path));
    SUTURE_RETURN_IF_ERROR(check_runnable(checkpoint->config(), model.path.string()));
    SlabOptions slab;
    slab.shape = checkpoint->config().kv_shape();
    slab.max_seq_len = spec.max_seq_len;
    slab.max_sequences = spec.max_sequences;
    MemoryNeed need;
    need.name = model.name;
    need.weight_bytes = counted.insert(model.path).second ? checkpoint->file_bytes() : 0;
    SUTURE_ASSIGN_OR_RETURN(need.kv_bytes, Slab::payload_bytes_for(slab));
    needs.push_back(std::move(need));
  }
  return needs;
}

uint64_t total_bytes(const std::vector<MemoryNeed>& needs) {
  uint64_t total = 0;
  for (const MemoryNeed& need : needs) total += need.weight_bytes + need.kv_bytes;
  return total;
}

Status check_memory(const std::vector<MemoryNeed>& needs, uint64_t available_bytes,
                    const LaunchSpec& spec) {
  const uint64_t total = total_bytes(needs);
  if (total <= available_bytes) return {};
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("{} MB are needed, {} MB are free", total / 1'000'000,
                          available_bytes / 1'000'000),
              spec.topology_path.string(),
              "lower max_seq_len or max_sequences in [bus], or choose smaller models");
}

}  // namespace suture
