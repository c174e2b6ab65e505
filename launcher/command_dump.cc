#include "launcher/command_dump.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "kernels/kv_rows.h"
#include "launcher/model_options.h"
#include "launcher/system_info.h"
#include "launcher/token_input.h"
#include "models/safetensors.h"

namespace suture {
namespace {

struct DumpOptions : ModelOptions {
  std::string ids_file;
  std::string out_file;
};

// Float32 tensors in host memory, with what write_safetensors() wants to know of them.
class TensorList {
 public:
  // Room for a tensor, to be filled by the caller.
  std::span<float> add(std::string name, std::vector<int64_t> shape) {
    size_t elements = 1;
    for (int64_t dimension : shape) elements *= static_cast<size_t>(dimension);
    auto& values = values_.emplace_back(elements);
    TensorInfo info;
    info.name = std::move(name);
    info.shape = std::move(shape);
    info.data = std::as_bytes(std::span(values));
    infos_.push_back(std::move(info));
    return values;
  }
  const std::vector<TensorInfo>& infos() const { return infos_; }

 private:
  std::vector<std::vector<float>> values_;  // moving a vector leaves its elements in place
  std::vector<TensorInfo> infos_;
};

// The result and the file stand in memory at once on most systems.
Status check_memory(const ModelConfig& config, int64_t tokens) {
  const uint64_t row = static_cast<uint64_t>(config.vocab_size) +
                       2ull * config.n_layers * config.n_kv_heads * config.head_dim;
  const auto bytes = checked_product({row, static_cast<uint64_t>(tokens), sizeof(float)});
  const uint64_t available = available_memory_bytes();
  if (bytes && *bytes <= available) return {};
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("logits, K and V of {} tokens are larger than the {} MB that are free",
                          tokens, available / 1'000'000),
              "dump", "dump fewer tokens");
}

Status copy_to_host(LanguageModel& model, std::span<float> host, const float* device) {
  SUTURE_RETURN_IF_ERROR(model.stream().copy_to_host(std::as_writable_bytes(host),
                                                     reinterpret_cast<const std::byte*>(device)));
  return model.stream().synchronize();
}

// logits [tokens][vocab].
Status dump_logits(LanguageModel& model, KvCache& cache, std::span<const int32_t> ids,
                   TensorList& tensors) {
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  const std::span<float> logits =
      tensors.add("logits", {std::ssize(ids), static_cast<int64_t>(vocab)});
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  args.on_logits = [&](int64_t row, const float* device) {
    return copy_to_host(model, logits.subspan(static_cast<size_t>(row) * vocab, vocab), device);
  };
  SUTURE_RETURN_IF_ERROR(model.prefill(args));
  return {};
}

// k.<layer> and v.<layer>, each [kv_heads][tokens][head_dim].
Status dump_cache(LanguageModel& model, KvCache& cache, TensorList& tensors) {
  const KvShape& shape = cache.shape();
  const int64_t tokens = cache.size();
  const auto bytes =
      static_cast<size_t>(shape.n_kv_heads * tokens * shape.head_dim) * sizeof(float);
  SUTURE_ASSIGN_OR_RETURN(const auto key, model.device().allocate(bytes));
  SUTURE_ASSIGN_OR_RETURN(const auto value, model.device().allocate(bytes));
  for (int32_t layer = 0; layer < shape.n_layers; ++layer) {
    KvGatherArgs args;
    args.key = key->as<float>();
    args.value = value->as<float>();
    args.end = tokens;
    args.shape = shape;
    args.kv = cache.layer_view(layer);
    SUTURE_RETURN_IF_ERROR(kv_gather(model.stream(), args));
    const std::vector<int64_t> dims = {shape.n_kv_heads, tokens, shape.head_dim};
    SUTURE_RETURN_IF_ERROR(
        copy_to_host(model, tensors.add(fmt::format("k.{}", layer), dims), args.key));
    SUTURE_RETURN_IF_ERROR(
        copy_to_host(model, tensors.add(fmt::format("v.{}", layer), dims), args.value));
  }
  return {};
}

CommandResult run_dump(const DumpOptions& options, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto model, load_model(options));
  SUTURE_ASSIGN_OR_RETURN(const auto ids,
                          read_token_ids(options.ids_file, model->config().vocab_size));
  SUTURE_RETURN_IF_ERROR(check_memory(model->config(), std::ssize(ids)));
  SUTURE_ASSIGN_OR_RETURN(const auto cache, make_cache(*model, options, std::ssize(ids)));
  TensorList tensors;
  SUTURE_RETURN_IF_ERROR(dump_logits(*model, *cache, ids, tensors));
  SUTURE_RETURN_IF_ERROR(dump_cache(*model, *cache, tensors));
  SUTURE_RETURN_IF_ERROR(write_safetensors(options.out_file, tensors.infos()));
  if (json)
    print_json(
        {{"out", options.out_file}, {"tokens", ids.size()}, {"tensors", tensors.infos().size()}});
  else
    fmt::print("{}: {} tensors of {} tokens\n", options.out_file, tensors.infos().size(),
               ids.size());
  return kExitOk;
}

}  // namespace

void add_dump_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command =
      app.add_subcommand("dump", "Write logits, K and V of a prompt as float32 safetensors");
  add_model_options(*command, *options);
  command
      ->add_option(
          "--ids", options->ids_file,
          "File of token ids: a JSON array or separated by white space; - is standard input")
      ->required();
  command->add_option("--out", options->out_file, "The safetensors file to write")->required();
  context.set_action(command, [options, &context] { return run_dump(*options, context.json); });
}

}  // namespace suture
