#include "launcher/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "actors/projected_streams.h"
#include "launcher/download.h"
#include "launcher/text_file.h"
#include "launcher/toml_reader.h"
#include "launcher/topology_fusion.h"
#include "models/stop_strings.h"
#include "models/unicode.h"

namespace suture {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxModels = 64;
constexpr size_t kMaxDocuments = 64;
constexpr size_t kMaxSystemBytes = 64 << 10;
constexpr size_t kMaxPathBytes = 4096;
constexpr size_t kMaxChatPieceBytes = 64 << 10;

constexpr std::array<std::string_view, 7> kFileKeys = {
    "bus", "model", "sampling", "placement", "restarts", "stitch_until", "warm_up"};
constexpr std::array<std::string_view, 1> kPlannedFileKeys = {"gpu_sharing"};
constexpr std::array<std::string_view, 4> kBusKeys = {"hung_after", "max_queue", "max_seq_len",
                                                      "max_sequences"};
constexpr std::array<std::string_view, 9> kSamplingKeys = {
    "temperature",       "top_k", "top_p",      "min_p", "repetition_penalty",
    "repetition_window", "seed",  "max_tokens", "stop"};
constexpr std::array<std::string_view, 13> kModelKeys = {
    "name",         "role",        "path",         "device", "threads",
    "system",       "documents",   "chat_format",  "fusion", "on_failure",
    "rope_scaling", "rope_length", "rope_crossing"};
constexpr std::array<std::string_view, 3> kRopeKeys = {"type", "factor", "original"};
constexpr std::array<std::string_view, 9> kChatKeys = {
    "system_open",     "system_close",   "user_open",      "user_close", "assistant_open",
    "assistant_close", "default_system", "system_in_user", "stop"};

Status read_bus(const TomlReader& reader, LaunchSpec& spec) {
  SUTURE_RETURN_IF_ERROR(reader.check_keys(kBusKeys, {}));
  SUTURE_ASSIGN_OR_RETURN(spec.max_seq_len,
                          reader.integer("max_seq_len", spec.max_seq_len, 32, 1 << 20));
  SUTURE_ASSIGN_OR_RETURN(const int64_t sequences,
                          reader.integer("max_sequences", spec.max_sequences, 1, 256));
  SUTURE_ASSIGN_OR_RETURN(const int64_t queue,
                          reader.integer("max_queue", spec.max_queue, 0, 1024));
  spec.max_sequences = static_cast<int32_t>(sequences);
  spec.max_queue = static_cast<int32_t>(queue);
  SUTURE_ASSIGN_OR_RETURN(const int64_t hung_after,
                          reader.integer("hung_after", spec.hung_after.count() / 1000, 1, 86'400));
  spec.hung_after = std::chrono::seconds(hung_after);
  return {};
}

Status read_sampling(const TomlReader& reader, LaunchSpec& spec) {
  SUTURE_RETURN_IF_ERROR(reader.check_keys(kSamplingKeys, {}));
  SamplingOptions& sampling = spec.sampling;
  SUTURE_ASSIGN_OR_RETURN(const double temperature,
                          reader.number("temperature", sampling.temperature, 0, 100));
  SUTURE_ASSIGN_OR_RETURN(const int64_t top_k, reader.integer("top_k", sampling.top_k, 0, 1024));
  SUTURE_ASSIGN_OR_RETURN(const double top_p, reader.number("top_p", sampling.top_p, 0, 1));
  SUTURE_ASSIGN_OR_RETURN(const double min_p, reader.number("min_p", sampling.min_p, 0, 1));
  SUTURE_ASSIGN_OR_RETURN(
      const double penalty,
      reader.number("repetition_penalty", sampling.repetition_penalty, 0, kMaxRepetitionPenalty));
  SUTURE_ASSIGN_OR_RETURN(
      sampling.repetition_window,
      reader.integer("repetition_window", sampling.repetition_window, -1, kMaxRepetitionWindow));
  SUTURE_ASSIGN_OR_RETURN(
      spec.max_tokens, reader.integer("max_tokens", std::min(spec.max_tokens, spec.max_seq_len), 1,
                                      spec.max_seq_len));
  SUTURE_ASSIGN_OR_RETURN(spec.stop, reader.texts("stop", kMaxStopStrings, kMaxStopBytes));
  if (const Status stops = validate_stop_strings(spec.stop); !stops)
    return reader.refuse("stop", stops.error().what);
  SUTURE_ASSIGN_OR_RETURN(const int64_t seed,
                          reader.integer("seed", 0, 0, std::numeric_limits<int64_t>::max()));
  sampling.temperature = static_cast<float>(temperature);
  sampling.top_k = static_cast<int32_t>(top_k);
  sampling.top_p = static_cast<float>(top_p);
  sampling.min_p = static_cast<float>(min_p);
  sampling.repetition_penalty = static_cast<float>(penalty);
  sampling.seed = static_cast<uint64_t>(seed);
  if (sampling.top_p == 0) return reader.refuse("top_p", "expected more than 0, got 0");
  if (sampling.repetition_penalty == 0)
    return reader.refuse("repetition_penalty", "expected more than 0 (1 is off), got 0");
  return {};
}

Status read_documents(const TomlReader& reader, const std::filesystem::path& folder,
                      ModelSpec& model) {
  SUTURE_ASSIGN_OR_RETURN(const auto names,
                          reader.texts("documents", kMaxDocuments, kMaxPathBytes));
  model.documents_per_request = reader.has("documents") && names.empty();
  for (const std::string& name : names) {
    const std::filesystem::path path = folder / name;
    const auto text = read_text_file(path, kMaxDocumentBytes);
    if (!text)
      return fail(text.error().code, fmt::format("{}: {}", path.string(), text.error().what),
                  reader.where("documents"),
                  text.error().remedy.empty() ? "paths are relative to the topology file"
                                              : text.error().remedy);
    if (text->empty())
      return reader.refuse("documents", fmt::format("{}: is empty", path.string()));
    model.documents.push_back(path);
  }
  return {};
}

Status check_name(const TomlReader& reader, const std::string& name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:";
  if (name == "launcher")
    return reader.refuse("name", "'launcher' is the name of the process that starts the others");
  if (!name.empty() && name.find_first_not_of(kLetters) == std::string::npos) return {};
  return reader.refuse("name", "expected 1 to 63 letters, digits or _ - . :");
}

Status check_device(const TomlReader& reader, const std::string& device) {
  if (device == "cpu") return {};
  return reader.not_supported("device", fmt::format("device \"{}\" (only \"cpu\" is)", device));
}

// What only a slave has, and what its position asks for.
Status check_role(const TomlReader& reader, const ModelSpec& model) {
  if (model.role == Role::kMaster) {
    for (std::string_view name : {"fusion", "on_failure"})
      if (reader.has(name))
        return reader.refuse(name,
                             fmt::format("'{}' belongs to slaves, and this is the master", name),
                             "remove the key, or set role = \"slave\"");
    return {};
  }
  const bool reads =
      !model.documents.empty() || model.documents_per_request || model.system.has_value();
  if (model.fusion.position == SlavePosition::kPrefix && !reads)
    return reader.refuse(
        "documents", "a slave with position = \"prefix\" has nothing to read",
        "say what it reads: documents = [\"file.txt\"], or [] where documents come "
        "with each request, or give it a system text");
  if (model.fusion.position == SlavePosition::kAligned && reads)
    return reader.refuse(reader.has("documents") ? "documents" : "system",
                         "an aligned slave reads the master's text and nothing of its own",
                         "add fusion = { position = \"prefix\" }");
  return {};
}

// What stands in place of the file's own rope scaling. The tables of longrope are in files only.
Status read_rope(const TomlReader& reader, ModelSpec& model) {
  SUTURE_ASSIGN_OR_RETURN(model.rope_length, reader.integer("rope_length", 0, 1, int64_t{1} << 30));
  SUTURE_ASSIGN_OR_RETURN(model.rope_crossing,
                          reader.choice<RopeCrossing>(
                              "rope_crossing", model.rope_crossing,
                              {{"keep", RopeCrossing::kKeep}, {"reread", RopeCrossing::kReread}}));
  if (model.rope_crossing == RopeCrossing::kReread && model.role == Role::kSlave)
    return reader.refuse("rope_crossing",
                         "a slave keeps the rotation of what it has read: others read it too",
                         "remove the key, or fix the slave's frequencies with rope_length");
  if (!reader.has("rope_scaling")) return {};
  SUTURE_ASSIGN_OR_RETURN(const TomlReader rope, reader.table("rope_scaling"));
  SUTURE_RETURN_IF_ERROR(rope.check_keys(kRopeKeys, {}));
  if (!rope.has("type")) return rope.refuse("type", "'type' is missing");
  RopeScalingOverride scaling;
  SUTURE_ASSIGN_OR_RETURN(scaling.scaling,
                          rope.choice<RopeScaling>("type", RopeScaling::kNone,
                                                   {{"none", RopeScaling::kNone},
                                                    {"linear", RopeScaling::kLinear},
                                                    {"dynamic", RopeScaling::kDynamic},
                                                    {"yarn", RopeScaling::kYarn},
                                                    {"llama3", RopeScaling::kLlama3}}));
  SUTURE_ASSIGN_OR_RETURN(const double factor, rope.number("factor", 1, 1, 1e6));
  scaling.factor = static_cast<float>(factor);
  SUTURE_ASSIGN_OR_RETURN(scaling.original_positions,
                          rope.integer("original", 0, 1, int64_t{1} << 30));
  model.rope_scaling = scaling;
  return {};
}

// The pieces around each turn; what is left out is empty.
Result<ChatFormat> read_chat_pieces(const TomlReader& reader) {
  SUTURE_RETURN_IF_ERROR(reader.check_keys(kChatKeys, {}));
  ChatFormat format;
  const std::pair<std::string_view, std::string*> pieces[] = {
      {"system_open", &format.system_open},       {"system_close", &format.system_close},
      {"user_open", &format.user_open},           {"user_close", &format.user_close},
      {"assistant_open", &format.assistant_open}, {"assistant_close", &format.assistant_close},
      {"default_system", &format.default_system}};
  for (const auto& [name, piece] : pieces) {
    if (!reader.has(name)) continue;
    SUTURE_ASSIGN_OR_RETURN(*piece, reader.text(name, {}, kMaxChatPieceBytes));
  }
  SUTURE_ASSIGN_OR_RETURN(format.system_in_user, reader.flag("system_in_user", false));
  SUTURE_ASSIGN_OR_RETURN(format.stop, reader.texts("stop", kMaxStopStrings, kMaxStopBytes));
  if (const Status stops = validate_stop_strings(format.stop); !stops)
    return reader.refuse("stop", stops.error().what);
  if (format.user_open.empty() || format.assistant_open.empty())
    return reader.refuse(format.user_open.empty() ? "user_open" : "assistant_open",
                         "a chat format says at least how the user's and the model's turns begin",
                         fmt::format("give user_open and assistant_open, or one of the names: {}",
                                     ChatFormat::known_names()));
  return format;
}

Status read_chat_format(const TomlReader& reader, ModelSpec& model) {
  const toml::node* node = reader.find("chat_format");
  if (node != nullptr && node->is_table()) {
    SUTURE_ASSIGN_OR_RETURN(const TomlReader pieces, reader.table("chat_format"));
    SUTURE_ASSIGN_OR_RETURN(model.chat_pieces, read_chat_pieces(pieces));
    return {};
  }
  SUTURE_ASSIGN_OR_RETURN(model.chat_format, reader.text("chat_format", {}, 64));
  if (model.chat_format.empty() || ChatFormat::named(model.chat_format)) return {};
  return reader.refuse("chat_format",
                       fmt::format("chat format \"{}\" is not known", model.chat_format),
                       fmt::format("use one of {}, or a table of the pieces around each turn",
                                   ChatFormat::known_names()));
}

Result<ModelSpec> read_model(const TomlReader& reader, const std::filesystem::path& folder) {
  SUTURE_RETURN_IF_ERROR(reader.check_keys(kModelKeys, {}));
  for (std::string_view name : {"name", "role", "path"})
    if (!reader.has(name)) return reader.refuse(name, fmt::format("'{}' is missing", name));
  ModelSpec model;
  SUTURE_ASSIGN_OR_RETURN(model.name, reader.text("name", {}, 63));
  SUTURE_RETURN_IF_ERROR(check_name(reader, model.name));
  SUTURE_ASSIGN_OR_RETURN(
      model.role, reader.choice<Role>("role", model.role,
                                      {{"master", Role::kMaster}, {"slave", Role::kSlave}}));
  SUTURE_ASSIGN_OR_RETURN(model.path_text, reader.text("path", {}, kMaxPathBytes));
  SUTURE_ASSIGN_OR_RETURN(model.device, reader.text("device", model.device, 256));
  SUTURE_RETURN_IF_ERROR(check_device(reader, model.device));
  SUTURE_ASSIGN_OR_RETURN(const int64_t threads, reader.integer("threads", model.threads, 1, 1024));
  model.threads = static_cast<int>(threads);
  if (reader.has("system")) {
    SUTURE_ASSIGN_OR_RETURN(model.system, reader.text("system", {}, kMaxSystemBytes));
  }
  SUTURE_RETURN_IF_ERROR(read_chat_format(reader, model));
  SUTURE_ASSIGN_OR_RETURN(
      model.on_failure,
      reader.choice<OnFailure>("on_failure", model.on_failure,
                               {{"degrade", OnFailure::kDegrade}, {"fail", OnFailure::kFail}}));
  SUTURE_RETURN_IF_ERROR(read_rope(reader, model));
  SUTURE_ASSIGN_OR_RETURN(const TomlReader fusion, reader.table("fusion"));
  SUTURE_RETURN_IF_ERROR(read_fusion(fusion, folder, model.fusion));
  SUTURE_RETURN_IF_ERROR(read_documents(reader, folder, model));
  SUTURE_RETURN_IF_ERROR(check_role(reader, model));
  return model;
}

// What a slave asks of the others.
Status check_pairs(const TomlReader& file, const LaunchSpec& spec) {
  constexpr size_t kLongestOwner = 63;  // a name on the bus
  for (const ModelSpec& slave : spec.models) {
    if (slave.transfers() && spec.models.size() > 2)
      return file.refuse(
          "model",
          fmt::format("'{}' transfers its text, and there are other slaves beside it", slave.name),
          "with mode = \"transfer\" a master has one slave");
    const bool may_project = slave.is_slave() && !slave.fusion.projector.empty();
    const std::string owner = projected_owner(slave.name, spec.master().name);
    if (may_project && owner.size() > kLongestOwner)
      return file.refuse("model",
                         fmt::format("the names '{}' and '{}' have more than {} letters together",
                                     slave.name, spec.master().name, kLongestOwner - 1),
                         "with a projector, give the two shorter names");
  }
  return {};
}

Status read_models(const TomlReader& file, const std::filesystem::path& folder, LaunchSpec& spec) {
  const toml::node* node = file.find("model");
  const toml::array* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr || array->empty() || !array->is_homogeneous(toml::node_type::table))
    return file.refuse("model", "expected a [[model]] table for each model");
  if (array->size() > kMaxModels)
    return file.refuse(
        "model", fmt::format("expected at most {} models, got {}", kMaxModels, array->size()));
  std::map<std::string, size_t> seen;  // name to index
  for (size_t i = 0; i < array->size(); ++i) {
    const TomlReader reader(*array->get(i)->as_table(), file.file(), fmt::format("model[{}]", i));
    SUTURE_ASSIGN_OR_RETURN(ModelSpec model, read_model(reader, folder));
    const auto [earlier, is_new] = seen.emplace(model.name, i);
    if (!is_new)
      return reader.refuse("name", fmt::format("'{}' is already the name of model[{}]", model.name,
                                               earlier->second));
    const bool second_master =
        model.role == Role::kMaster && !spec.models.empty() && spec.master().role == Role::kMaster;
    if (second_master)
      return reader.refuse("role",
                           fmt::format("a second master; '{}' is one already", spec.master().name));
    spec.models.push_back(std::move(model));
  }
  if (spec.master().role != Role::kMaster)
    return file.refuse("model", "no model has role = \"master\"");
  return check_pairs(file, spec);
}

Result<LaunchSpec> read_topology(std::string_view text, const std::filesystem::path& path) {
  toml::table table;
  try {
    table = toml::parse(text, path.string());
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument, std::string(error.description()),
                fmt::format("{}:{}:{}", path.string(), error.source().begin.line,
                            error.source().begin.column),
                "topology files are TOML; docs/topology.md shows one");
  }
  LaunchSpec spec;
  spec.topology_path = path;
  const TomlReader file(table, path.string(), {});
  SUTURE_RETURN_IF_ERROR(file.check_keys(kFileKeys, kPlannedFileKeys));
  SUTURE_ASSIGN_OR_RETURN(spec.placement,
                          file.choice<Placement>("placement", spec.placement,
                                                 {{"processes", Placement::kProcesses},
                                                  {"in-process", Placement::kInProcess}}));
  if (file.has("stitch_until")) {
    SUTURE_ASSIGN_OR_RETURN(spec.stitch_until,
                            file.integer("stitch_until", 0, 1, int64_t{1} << 32));
  }
  SUTURE_ASSIGN_OR_RETURN(const int64_t restarts, file.integer("restarts", spec.restarts, 0, 1000));
  spec.restarts = static_cast<int>(restarts);
  SUTURE_ASSIGN_OR_RETURN(spec.warm_up, file.flag("warm_up", spec.warm_up));
  SUTURE_ASSIGN_OR_RETURN(const TomlReader bus, file.table("bus"));
  SUTURE_RETURN_IF_ERROR(read_bus(bus, spec));
  SUTURE_ASSIGN_OR_RETURN(const TomlReader sampling, file.table("sampling"));
  SUTURE_RETURN_IF_ERROR(read_sampling(sampling, spec));
  SUTURE_RETURN_IF_ERROR(read_models(file, path.parent_path(), spec));
  return spec;
}

}  // namespace

Result<LaunchSpec> parse_topology(std::string_view text, const std::filesystem::path& path) {
  constexpr size_t kMaxMessage = 500;  // keys and values of the file are in it
  auto spec = read_topology(text, path);
  if (!spec) {
    spec.error().what = printable(spec.error().what, kMaxMessage);
    spec.error().where = printable(spec.error().where, kMaxMessage);
  }
  return spec;
}

Result<LaunchSpec> load_topology(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_topology(text, path);
}

Status resolve_models(LaunchSpec& spec) {
  for (ModelSpec& model : spec.models) {
    auto path = resolve_model(model.path_text, spec.topology_path.parent_path());
    if (!path) {
      Error error = std::move(path).error();
      error.where =
          fmt::format("{}: model '{}': {}", spec.topology_path.string(), model.name, error.where);
      return tl::unexpected<Error>(std::move(error));
    }
    model.path = std::move(*path);
  }
  return {};
}

}  // namespace suture
