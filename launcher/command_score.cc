#include "launcher/command_score.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "launcher/model_options.h"
#include "launcher/score.h"
#include "launcher/text_file.h"
#include "launcher/token_input.h"

namespace suture {
namespace {

constexpr size_t kMaxTextBytes = 16 << 20;

struct ScoreOptions : ModelOptions {
  std::string ids_file;
  std::string text_file;
  bool special = false;
  int64_t greedy = 0;
  std::string kernels = "prefill";
};

// The text's tokens, after the model's own beginning-of-text token where its rule says so.
Result<std::vector<int32_t>> tokens_of_text(const Checkpoint& checkpoint,
                                            const ScoreOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_file(options.text_file, kMaxTextBytes));
  SUTURE_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(checkpoint));
  std::vector<int32_t> ids;
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  if (vocabulary.add_bos && vocabulary.bos_id) ids.push_back(*vocabulary.bos_id);
  const auto special = options.special ? SpecialTokens::kParse : SpecialTokens::kAsText;
  for (int32_t id : tokenizer->encode(text, special)) ids.push_back(id);
  if (ids.empty())
    return fail(ErrorCode::kInvalidArgument, "the text has no tokens", options.text_file);
  if (ids.size() > kMaxInputTokens)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens, at most {} are allowed", ids.size(), kMaxInputTokens),
                options.text_file);
  return ids;
}

CommandResult run_score(const ScoreOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const auto model, load_model(options));
  SUTURE_ASSIGN_OR_RETURN(const auto ids,
                          options.ids_file.empty()
                              ? tokens_of_text(model->checkpoint(), options)
                              : read_token_ids(options.ids_file, model->config().vocab_size));
  SUTURE_ASSIGN_OR_RETURN(const auto cache,
                          make_cache(*model, options, std::ssize(ids) + options.greedy));
  const MatmulPath path = options.kernels == "decode" ? MatmulPath::kDecode : MatmulPath::kPrefill;
  SUTURE_ASSIGN_OR_RETURN(const Score result, score(*model, *cache, ids, options.greedy, path));
  nlohmann::json json = {{"tokens", ids},
                         {"mean_nll", result.mean_nll},
                         {"token_nll", result.token_nll},
                         {"top", nlohmann::json::array()},
                         {"logsumexp", result.logsumexp}};
  for (const auto& [id, logit] : result.top) json["top"].push_back({id, logit});
  if (options.greedy > 0) json["greedy"] = result.greedy;
  print_json(json);
  return kExitOk;
}

}  // namespace

void add_score_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = app.add_subcommand(
      "score", "Negative log-likelihood of each token, and the best next ones, as JSON");
  add_model_options(*command, *options);
  auto* input = command->add_option_group("input", "What is scored");
  input->add_option(
      "--ids", options->ids_file,
      "File of token ids: a JSON array or separated by white space; - is standard input");
  input->add_option("--text", options->text_file, "File of text; - is standard input");
  input->require_option(1);
  command->add_flag("--special", options->special,
                    "Special tokens written out in the text become their ids");
  command->add_option("--greedy", options->greedy, "Also decode this many tokens greedily")
      ->check(CLI::Range(0, 1 << 20));
  command
      ->add_option("--kernels", options->kernels,
                   "Read with the kernels of prompts or of generated tokens (8-bit)")
      ->check(CLI::IsMember({"prefill", "decode"}));
  context.set_action(command, [options] { return run_score(*options); });
}

}  // namespace suture
