#include "actors/launch_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "models/checkpoint.h"
#include "models/language_model.h"

namespace suture {
namespace {

constexpr size_t kCachedTexts = 64;

struct OpenedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<NormWeights> norms;  // nothing where the file cannot be run
};

// Models by path: what several processes share is opened once.
using OpenedModels = std::map<std::filesystem::path, OpenedModel>;

Result<OpenedModel> open_model(const ModelSpec& spec) {
  OpenedModel model;
  SUTURE_ASSIGN_OR_RETURN(model.checkpoint, Checkpoint::open(spec.path));
  model.config = model.checkpoint->config();
  SUTURE_ASSIGN_OR_RETURN(Vocabulary vocabulary, model.checkpoint->vocabulary());
  SUTURE_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::create(std::move(vocabulary)));
  if (auto norms = read_norm_weights(*model.checkpoint)) model.norms = std::move(*norms);
  return model;
}

Result<OpenedModels> open_models(const LaunchSpec& spec) {
  OpenedModels models;
  for (const ModelSpec& model : spec.models) {
    if (models.contains(model.path)) continue;
    SUTURE_ASSIGN_OR_RETURN(models[model.path], open_model(model));
  }
  return models;
}

// The configuration that the model will run with.
Result<ModelConfig> config_of(const ModelSpec& spec, const OpenedModel& model) {
  ModelConfig config = model.config;
  SUTURE_RETURN_IF_ERROR(check_runnable(config, spec.path.string()));
  SUTURE_RETURN_IF_ERROR(
      override_rope({.rope_scaling = spec.rope_scaling, .rope_length = spec.rope_length}, config));
  return config;
}

Result<PairSide> side_of(const ModelSpec& spec, const OpenedModels& models) {
  const OpenedModel& model = models.at(spec.path);
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config, config_of(spec, model));
  std::string fingerprint = fingerprint_of(*model.checkpoint, config);
  return PairSide{spec.name, std::move(config), *model.tokenizer,
                  model.norms ? &*model.norms : nullptr, std::move(fingerprint)};
}

bool other_vocabulary(const OpenedModel& a, const OpenedModel& b) {
  return a.tokenizer->vocabulary_hash() != b.tokenizer->vocabulary_hash();
}

Result<std::vector<SlaveReport>> compare(const LaunchSpec& spec, const OpenedModels& models) {
  SUTURE_ASSIGN_OR_RETURN(const PairSide master, side_of(spec.master(), models));
  std::vector<SlaveReport> reports;
  for (const ModelSpec& model : spec.models) {
    if (model.role == Role::kMaster) continue;
    SUTURE_ASSIGN_OR_RETURN(const PairSide slave, side_of(model, models));
    reports.push_back(
        {model.name, choose_fusion(model.fusion, master, slave, spec.longest_sequence(model))});
  }
  return reports;
}

// The model's own format, else the master's: an aligned slave reads what the master reads.
Result<ChatFormat> chat_format(const LaunchSpec& spec, const ModelSpec& model,
                               const Vocabulary& vocabulary) {
  for (const ModelSpec* from : {&model, &spec.master()}) {
    if (from->chat_pieces) return *from->chat_pieces;
    if (!from->chat_format.empty()) return ChatFormat::named(from->chat_format);
  }
  return ChatFormat::detect(vocabulary);
}

// What ends an answer: the model's own end tokens and the format's stop strings that are special
// tokens. Those that are ordinary text are left in `stop`.
std::vector<int32_t> end_ids(const Tokenizer& tokenizer, std::vector<std::string>& stop) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (tokenizer.is_end(id)) ids.push_back(id);
  std::erase_if(stop, [&](const std::string& text) {
    const auto encoded = tokenizer.encode(text, SpecialTokens::kParse);
    if (encoded.size() != 1) return false;
    const TokenKind kind = tokenizer.vocabulary().kinds[static_cast<size_t>(encoded[0])];
    if (kind != TokenKind::kControl && kind != TokenKind::kUserDefined) return false;
    if (std::ranges::count(ids, encoded[0]) == 0) ids.push_back(encoded[0]);
    return true;
  });
  return ids;
}

// Of a slave that is asked by itself: the master's format says nothing about it.
Result<ChatFormat> own_chat_format(const ModelSpec& model, const Vocabulary& vocabulary) {
  if (model.chat_pieces) return *model.chat_pieces;
  if (!model.chat_format.empty()) return ChatFormat::named(model.chat_format);
  return ChatFormat::detect(vocabulary);
}

// Where no format is known, the model's own end tokens end what it drafts.
std::vector<int32_t> draft_ends(const LaunchSpec& spec, const ModelSpec& model,
                                const Tokenizer& tokenizer) {
  const auto format = chat_format(spec, model, tokenizer.vocabulary());
  std::vector<std::string> stop = format ? format->stop : std::vector<std::string>();
  return end_ids(tokenizer, stop);
}

Result<std::vector<std::string>> read_documents(const ModelSpec& model) {
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : model.documents) {
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) return fail(ErrorCode::kIo, "cannot read the document", path.string());
    texts.push_back(std::move(text));
  }
  return texts;
}

// Without a system prompt of its own a slave takes the master's, which both then share.
std::string system_of(const LaunchSpec& spec, const ModelSpec& model) {
  return model.system.value_or(spec.master().system.value_or(""));
}

Status refuse_own_texts(const ModelSpec& aligned) {
  if (!aligned.system && aligned.documents.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "an aligned slave reads the master's own text, it cannot have a system prompt or "
              "documents",
              aligned.name,
              "use fusion = { position = \"prefix\" } for a slave that reads "
              "something else");
}

// For a prefix slave, whose prompts are of its own vocabulary, unless its rows are the master's
// kind.
Result<SlavePrompts> prompts_for(const LaunchSpec& spec, const ModelSpec& model,
                                 const OpenedModels& models, PromptBuilder& prompts) {
  const OpenedModel& slave = models.at(model.path);
  std::string system = system_of(spec, model);
  const auto build = [&]() -> Result<SlavePrompts> {
    if (model.projects() || !other_vocabulary(models.at(spec.master().path), slave))
      return SlavePrompts(prompts, std::move(system));
    SUTURE_ASSIGN_OR_RETURN(ChatFormat format,
                            chat_format(spec, model, slave.tokenizer->vocabulary()));
    return SlavePrompts(slave.tokenizer, std::move(format), std::move(system));
  };
  SUTURE_ASSIGN_OR_RETURN(SlavePrompts built, build());
  SUTURE_ASSIGN_OR_RETURN(const auto documents, read_documents(spec.master()));
  built.set_master_head(system_of(spec, spec.master()), documents);
  return built;
}

// What this slave reads before any question, in words: its own documents, or the master's.
Result<ModelContext> hand_off_context(const LaunchSpec& spec, const ModelSpec& model,
                                      const OpenedModel& slave, PreparedLaunch& prepared) {
  const bool aligned = model.fusion.position == SlavePosition::kAligned;
  if (aligned) SUTURE_RETURN_IF_ERROR(refuse_own_texts(model));
  SUTURE_ASSIGN_OR_RETURN(ChatFormat format, own_chat_format(model, slave.tokenizer->vocabulary()));
  ModelContext context{.name = model.name, .head_ids = {}};
  std::vector<std::string> stop = format.stop;
  context.end_ids = end_ids(*slave.tokenizer, stop);
  HandOff hand_off{SlavePrompts(slave.tokenizer, std::move(format), system_of(spec, model)),
                   std::move(stop)};
  SUTURE_ASSIGN_OR_RETURN(const auto documents, read_documents(aligned ? spec.master() : model));
  context.head_ids = hand_off.prompts.read(model.name, documents).token_ids;
  prepared.draft_tokenizers[model.name] = slave.tokenizer;
  prepared.hand_offs.emplace(model.name, std::move(hand_off));
  return context;
}

// What this slave reads before any question; an aligned one reads what the master reads.
Result<ModelContext> slave_context(const ModelSpec& model, const SlavePrompts* prompts) {
  ModelContext context{.name = model.name, .head_ids = {}};
  if (prompts == nullptr) {
    SUTURE_RETURN_IF_ERROR(refuse_own_texts(model));
    return context;
  }
  SUTURE_ASSIGN_OR_RETURN(const auto documents, read_documents(model));
  RequestText text = prompts->read(model.name, documents);
  context.head_ids = std::move(text.token_ids);
  context.shared_tokens = text.shared_tokens;
  return context;
}

// The contexts of all models, in order.
Result<std::vector<ModelContext>> read_contexts(const LaunchSpec& spec, const OpenedModels& models,
                                                PreparedLaunch& prepared) {
  const OpenedModel& master = models.at(spec.master().path);
  SUTURE_ASSIGN_OR_RETURN(const auto documents, read_documents(spec.master()));
  prepared.master_head = prepared.prompts->head(system_of(spec, spec.master()), documents);
  std::vector<ModelContext> contexts;
  for (const ModelSpec& model : spec.models) {
    if (model.role == Role::kMaster) {
      contexts.push_back({.name = model.name, .head_ids = prepared.master_head});
      continue;
    }
    const OpenedModel& slave = models.at(model.path);
    if (model.hands_over()) {
      SUTURE_ASSIGN_OR_RETURN(contexts.emplace_back(),
                              hand_off_context(spec, model, slave, prepared));
      continue;
    }
    const SlavePrompts* prompts = nullptr;
    if (model.fusion.position == SlavePosition::kPrefix) {
      SUTURE_ASSIGN_OR_RETURN(SlavePrompts own,
                              prompts_for(spec, model, models, *prepared.prompts));
      prompts = &prepared.slave_prompts.emplace(model.name, std::move(own)).first->second;
    }
    SUTURE_ASSIGN_OR_RETURN(contexts.emplace_back(), slave_context(model, prompts));
    ModelContext& context = contexts.back();
    if (model.transfers()) context.head_ids = prepared.master_head;
    context.other_vocabulary = other_vocabulary(master, slave);
    if (model.drafts()) {
      context.end_ids = draft_ends(spec, model, *slave.tokenizer);
      prepared.draft_tokenizers[model.name] = slave.tokenizer;
    }
    // Rows that are mapped have the master's layers.
    const int32_t layers = model.projects() ? master.config.n_layers : slave.config.n_layers;
    SUTURE_ASSIGN_OR_RETURN(context.layer_map,
                            make_layer_map(model.fusion.layer_map, master.config.n_layers, layers));
  }
  return contexts;
}

// A slave that is given the master's tokens turns their text into its own, where they are others;
// so does the master of an aligned one, whose text grows, and one that maps the slave's rows.
std::vector<std::map<std::string, std::filesystem::path>> other_vocabularies(
    const LaunchSpec& spec, const std::vector<ModelContext>& contexts) {
  std::vector<std::map<std::string, std::filesystem::path>> needed(spec.models.size());
  for (size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& slave = spec.models[i];
    if (!contexts[i].other_vocabulary || !slave.reads_masters_tokens()) continue;
    needed[i][spec.master().name] = spec.master().path;
    const bool grows = slave.fusion.position == SlavePosition::kAligned && !slave.transfers();
    if (grows || slave.projects_in(ProjectorUse::kReader))
      needed[spec.master_index()][slave.name] = slave.path;
  }
  return needed;
}

Status refuse_empty_slaves(const LaunchSpec& spec, const std::vector<ModelContext>& contexts) {
  for (size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& model = spec.models[i];
    if (!model.is_slave_at(SlavePosition::kPrefix) || model.documents_per_request) continue;
    if (model.hands_over()) continue;  // its answer may be news all the same
    if (contexts[i].shared_tokens == std::ssize(contexts[i].head_ids))
      return fail(ErrorCode::kInvalidArgument, "the slave reads nothing that the master does not",
                  model.name, "give it documents or a system prompt of its own");
  }
  return {};
}

Status check_gains(const LaunchSpec& spec, int32_t n_layers) {
  for (const ModelSpec& model : spec.models) {
    const size_t given = model.fusion.layer_gain.size();
    if (given != 0 && given != static_cast<size_t>(n_layers))
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} gains, the master has {} layers", given, n_layers), model.name,
                  "give one gain, or one per layer");
  }
  return {};
}

Status check_lengths(const LaunchSpec& spec, const std::vector<ModelContext>& contexts) {
  for (const ModelContext& context : contexts)
    if (std::ssize(context.head_ids) > spec.max_seq_len)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} tokens to read, max_seq_len is {}", context.head_ids.size(),
                              spec.max_seq_len),
                  context.name, "raise max_seq_len in [bus] or shorten the documents");
  return {};
}

std::optional<std::string> reread_warning(const ModelSpec& master, const ModelConfig& config) {
  const auto rereads = [](const RopeSchedule& rope) {
    return rope.scaling == RopeScaling::kDynamic && rope.fixed_length == 0;
  };
  const auto dynamic = std::ranges::find_if(config.ropes, rereads);
  if (master.rope_crossing != RopeCrossing::kReread || dynamic == config.ropes.end())
    return std::nullopt;
  return fmt::format(
      "model '{}': rope_crossing = \"reread\" with dynamic rope scaling reads the whole text again "
      "at every token above {}; rope_length = N fixes the frequencies instead",
      master.name, dynamic->original_positions);
}

// What is said of rows means nothing where words are handed over; a slave that nobody listens to
// says none.
FusionSpec in_words(const FusionSpec& fusion) {
  FusionSpec words{.mode = FusionMode::kText, .position = fusion.position};
  words.gain = fusion.gain;
  words.layer_gain = fusion.layer_gain;
  words.draft = fusion.draft > 0 ? fusion.draft : FusionSpec::kHandOffTokens;
  return words;
}

// The topology with the modes that were chosen.
LaunchSpec with_modes(LaunchSpec spec, const std::vector<SlaveReport>& reports) {
  auto report = reports.begin();
  for (ModelSpec& model : spec.models) {
    if (!model.is_slave()) continue;
    model.fusion.mode = (report++)->fusion.mode;
    if (model.hands_over()) model.fusion = in_words(model.fusion);
  }
  return spec;
}

}  // namespace

Result<LaunchReport> examine_launch(const LaunchSpec& spec) {
  LaunchReport report;
  SUTURE_ASSIGN_OR_RETURN(const OpenedModels models, open_models(spec));
  SUTURE_ASSIGN_OR_RETURN(report.slaves, compare(spec, models));
  const ModelSpec& master = spec.master();
  SUTURE_ASSIGN_OR_RETURN(const ModelConfig config, config_of(master, models.at(master.path)));
  if (auto warning = reread_warning(master, config)) report.warnings.push_back(*std::move(warning));
  const auto slaves = static_cast<int64_t>(spec.models.size()) - 1;
  const int64_t most = spec.max_seq_len * (1 + slaves);
  if (spec.stitch_until && slaves > 0 && most < *spec.stitch_until)
    report.warnings.push_back(
        fmt::format("stitch_until = {} is never reached: max_seq_len x (1 + slaves) = {} x {} = {}",
                    *spec.stitch_until, spec.max_seq_len, 1 + slaves, most));
  return report;
}

Result<LaunchSpec> settle_modes(const LaunchSpec& spec) {
  const auto is_open = [](const ModelSpec& model) {
    return model.is_slave() && model.fusion.mode == FusionMode::kAuto;
  };
  if (std::ranges::none_of(spec.models, is_open)) return spec;
  SUTURE_ASSIGN_OR_RETURN(const OpenedModels models, open_models(spec));
  SUTURE_ASSIGN_OR_RETURN(const auto reports, compare(spec, models));
  return with_modes(spec, reports);
}

Result<PreparedLaunch> prepare_launch(const LaunchSpec& topology) {
  SUTURE_ASSIGN_OR_RETURN(const OpenedModels models, open_models(topology));
  SUTURE_ASSIGN_OR_RETURN(const auto reports, compare(topology, models));
  PreparedLaunch prepared;
  for (const SlaveReport& report : reports) {
    SUTURE_RETURN_IF_ERROR(report.fusion.verdict);
    if (!report.fusion.reason.empty())
      prepared.chosen.push_back(fmt::format("{}: mode {}: {}", report.name,
                                            fusion_mode_name(report.fusion.mode),
                                            report.fusion.reason));
    for (const std::string& what : report.fusion.overridden)
      prepared.forced.push_back(fmt::format("projector of '{}': {}", report.name, what));
  }
  const LaunchSpec spec = with_modes(topology, reports);
  const OpenedModel& master = models.at(spec.master().path);
  SUTURE_ASSIGN_OR_RETURN(ChatFormat format,
                          chat_format(spec, spec.master(), master.tokenizer->vocabulary()));

  prepared.stop = format.stop;
  prepared.encodings = std::make_unique<EncodingCache>(master.tokenizer, kCachedTexts);
  prepared.prompts = std::make_unique<PromptBuilder>(*prepared.encodings, std::move(format));
  CoordinatorSetup& setup = prepared.setup;
  setup.spec = spec;
  setup.master_layers = master.config.n_layers;
  setup.master_positions = master.config.max_positions;
  setup.end_ids = end_ids(*master.tokenizer, prepared.stop);
  SUTURE_ASSIGN_OR_RETURN(setup.contexts, read_contexts(spec, models, prepared));
  prepared.vocabularies = other_vocabularies(spec, setup.contexts);
  SUTURE_RETURN_IF_ERROR(refuse_empty_slaves(spec, setup.contexts));
  SUTURE_RETURN_IF_ERROR(check_gains(spec, setup.master_layers));
  SUTURE_RETURN_IF_ERROR(check_lengths(spec, setup.contexts));
  return prepared;
}

}  // namespace suture
