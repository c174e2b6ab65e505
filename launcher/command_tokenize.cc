#include "launcher/command_tokenize.h"

#include <memory>
#include <string>

#include "launcher/download.h"
#include "launcher/model_options.h"
#include "launcher/text_file.h"
#include "launcher/token_input.h"

namespace suture {
namespace {

constexpr size_t kMaxTextBytes = 256 << 20;

CommandResult run_tokenize(const std::string& model, bool special) {
  SUTURE_ASSIGN_OR_RETURN(const auto path, resolve_model(model));
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path));
  SUTURE_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(*checkpoint));
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_file("-", kMaxTextBytes));
  const auto ids =
      tokenizer->encode(text, special ? SpecialTokens::kParse : SpecialTokens::kAsText);
  nlohmann::json pieces = nlohmann::json::array();
  for (int32_t id : ids)
    pieces.push_back(printable_piece(tokenizer->piece(id, /*control_names=*/true)));
  print_json({{"ids", ids}, {"pieces", std::move(pieces)}});
  return kExitOk;
}

}  // namespace

void add_tokenize_command(CLI::App& app, CommandContext& context) {
  auto model = std::make_shared<std::string>();
  auto special = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "tokenize", "Token ids and pieces of standard input, as JSON; adds no BOS");
  command
      ->add_option("model", *model,
                   "Name from `suture models list`, .gguf file or checkpoint folder")
      ->required();
  command->add_flag("--special", *special,
                    "Special tokens written out in the text become their ids");
  context.set_action(command, [model, special] { return run_tokenize(*model, *special); });
}

}  // namespace suture
