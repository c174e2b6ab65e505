#include "launcher/command_models.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "launcher/download.h"
#include "launcher/manifest.h"
#include "launcher/progress.h"

namespace suture {
namespace {

using Names = std::vector<std::string>;

// The entries with these names, or all if none is given.
Result<std::vector<const ModelEntry*>> entries_for(const Names& names) {
  std::vector<const ModelEntry*> entries;
  for (const std::string& name : names) {
    const ModelEntry* entry = find_model(name);
    if (entry == nullptr) return unknown_model(name);
    entries.push_back(entry);
  }
  if (names.empty())
    for (const ModelEntry& entry : manifest()) entries.push_back(&entry);
  return entries;
}

CommandResult list_models(bool json) {
  const std::filesystem::path cache = model_cache_folder();
  nlohmann::json models = nlohmann::json::array();
  if (!json) fmt::print("{:<30} {:>8}  {:<8} {}\n", "name", "MB", "pulled", "licence");
  for (const ModelEntry& entry : manifest()) {
    const bool pulled = is_cached(entry, cache);
    models.push_back({{"name", entry.name},
                      {"bytes", entry.bytes},
                      {"pulled", pulled},
                      {"path", cached_model_path(entry, cache).string()},
                      {"sha256", entry.sha256},
                      {"licence", entry.licence},
                      {"hub", entry.hub_url()}});
    if (!json)
      fmt::print("{:<30} {:>8}  {:<8} {}\n", entry.name, entry.bytes / 1'000'000,
                 pulled ? "yes" : "no", entry.licence);
  }
  if (json)
    print_json({{"cache", cache.string()}, {"models", models}});
  else
    fmt::print("cache: {}\n", cache.string());
  return kExitOk;
}

CommandResult pull_models(const Names& names, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto entries, entries_for(names));
  const std::filesystem::path cache = model_cache_folder();
  nlohmann::json models = nlohmann::json::array();
  for (const ModelEntry* entry : entries) {
    ProgressLine progress(entry->name);
    const auto report = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
    SUTURE_ASSIGN_OR_RETURN(const PulledModel pulled,
                            pull_model(*entry, cache, default_sources(*entry, cache), report));
    models.push_back({{"name", entry->name},
                      {"path", pulled.path.string()},
                      {"bytes", entry->bytes},
                      {"licence", entry->licence},
                      {"already_there", pulled.already_there}});
    if (!json)
      fmt::print("{}: {} ({})\n", entry->name, pulled.already_there ? "already there" : "pulled",
                 pulled.path.string());
  }
  if (json) print_json({{"models", models}});
  return kExitOk;
}

CommandResult verify_models(const Names& names, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto entries, entries_for(names));
  const std::filesystem::path cache = model_cache_folder();
  nlohmann::json models = nlohmann::json::array();
  ExitCode code = kExitOk;
  for (const ModelEntry* entry : entries) {
    if (names.empty() && !is_cached(*entry, cache)) continue;
    const Status status = verify_model(*entry, cache);
    if (!status) code = kExitFailed;
    if (!status) fmt::print(stderr, "error: {}\n", status.error().message());
    if (status && !json) fmt::print("{}: ok\n", entry->name);
    nlohmann::json row = {{"name", entry->name}, {"ok", status.has_value()}};
    if (!status) row["what"] = status.error().what;
    models.push_back(std::move(row));
  }
  if (json) print_json({{"models", models}});
  return code;
}

}  // namespace

void add_models_command(CLI::App& app, CommandContext& context) {
  CLI::App* models = app.add_subcommand("models", "The models known by name, and their cache");
  models->require_subcommand(0, 1);

  CLI::App* list =
      models->add_subcommand("list", "Show all models, sizes, licences, what is there");
  context.set_action(list, [&context] { return list_models(context.json); });

  auto pulled = std::make_shared<Names>();
  CLI::App* pull = models->add_subcommand("pull", "Download models into the cache and verify them");
  pull->add_option("names", *pulled, "Names from `suture models list`")->required();
  context.set_action(pull, [pulled, &context] { return pull_models(*pulled, context.json); });

  auto verified = std::make_shared<Names>();
  CLI::App* verify = models->add_subcommand("verify", "Read pulled models and check their sha256");
  verify->add_option("names", *verified, "Names; all that are there if none is given");
  context.set_action(verify,
                     [verified, &context] { return verify_models(*verified, context.json); });
}

}  // namespace suture
