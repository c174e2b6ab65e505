#include "launcher/fit/run_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "actors/trace_log.h"
#include "fusion/projector_build.h"
#include "fusion/projector_file.h"
#include "fusion/ridge.h"
#include "launcher/fit/fit_checkpoint.h"
#include "launcher/fit/fit_texts.h"
#include "launcher/launch_memory.h"
#include "launcher/model_options.h"
#include "models/checkpoint.h"
#include "models/tokenizer.h"

namespace suture {
namespace {

constexpr int32_t kSink = 4;  // first tokens of each text, which no linear map reproduces
constexpr double kSaveSeconds = 300;
// A source whose vocabulary is poorer than the target's reads a text in more tokens.
constexpr int64_t kTokensForOne = 4;

struct OpenedModel {
  ProjectorSide side;
  std::unique_ptr<Tokenizer> tokenizer;
};

Result<OpenedModel> open_model(const FitModel& model, int64_t tokens) {
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(model.path));
  SUTURE_RETURN_IF_ERROR(check_runnable(checkpoint->config(), model.path.string()));
  OpenedModel opened;
  SUTURE_ASSIGN_OR_RETURN(opened.tokenizer, open_tokenizer(*checkpoint));
  opened.side = projector_side(model.name, checkpoint->fingerprint(),
                               opened.tokenizer->vocabulary_hash(), checkpoint->config());
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(opened.side, tokens));
  return opened;
}

// Rising, each once, at most the source's layers.
std::vector<int32_t> windows_to_try(const FitOptions& options, int32_t source_layers) {
  std::vector<int32_t> windows = options.windows;
  if (windows.empty()) windows = {4, 8, 16, 0};
  for (int32_t& count : windows)
    count = count == 0 ? source_layers : std::min(count, source_layers);
  std::ranges::sort(windows);
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

std::vector<double> ridges_to_try(const FitOptions& options) {
  if (!options.ridges.empty()) return options.ridges;
  return {1e-1, 1e-2, 1e-3, 1e-4, 1e-5};
}

class FitRun {
 public:
  FitRun(const FitOptions& options, const FitSurroundings& surroundings)
      : options_(options), surroundings_(surroundings) {}

  Result<FitReport> run() {
    SUTURE_RETURN_IF_ERROR(check_out());
    SUTURE_RETURN_IF_ERROR(read_texts());
    SUTURE_RETURN_IF_ERROR(plan());
    SUTURE_RETURN_IF_ERROR(gather());
    FitReport report;
    SUTURE_RETURN_IF_ERROR(solve(report));
    SUTURE_RETURN_IF_ERROR(write_projector(options_.out, report.projector));
    std::error_code ignored;
    std::filesystem::remove(checkpoint_path(options_.out), ignored);
    return report;
  }

 private:
  // Hours are not spent on what cannot be written, nor thrown away.
  Status check_out() const {
    const std::filesystem::path folder =
        options_.out.has_parent_path() ? options_.out.parent_path() : ".";
    if (!std::filesystem::is_directory(folder))
      return fail(ErrorCode::kNotFound, "there is no such folder", folder.string());
    const std::filesystem::path saved = checkpoint_path(options_.out);
    if (!options_.resume && std::filesystem::exists(saved))
      return fail(ErrorCode::kInvalidArgument, "an interrupted fit has left what it had gathered",
                  saved.string(), "go on with --resume, or remove the file");
    return {};
  }

  Status read_texts();
  FitReading reading_of_piece(const FitPiece& piece) const;
  Result<uint64_t> models_bytes() const;
  Status plan();
  std::vector<ModelLoad> loads() const;
  Status gather();
  Status save();
  Result<std::vector<RidgeFit>> solve(const FitMoments& moments, FitTrials::What what,
                                      FitTrials& trials) const;
  Status solve(FitReport& report);
  FitParameters parameters() const;

  const FitOptions& options_;
  const FitSurroundings& surroundings_;
  OpenedModel source_;
  OpenedModel target_;
  std::vector<FitFile> files_;
  std::vector<std::string> kinds_;
  std::vector<FitReading> readings_;
  int64_t longest_ = 0;  // reading of either model, tokens
  FitPlan plan_;
  std::string binding_;
  std::optional<Gathered> gathered_;
};

Status FitRun::read_texts() {
  SUTURE_ASSIGN_OR_RETURN(source_, open_model(options_.source, kTokensForOne * options_.tokens));
  SUTURE_ASSIGN_OR_RETURN(target_, open_model(options_.target, options_.tokens));
  SUTURE_ASSIGN_OR_RETURN(FitTexts texts, read_fit_texts(options_.texts));
  SUTURE_ASSIGN_OR_RETURN(const auto pieces,
                          cut_pieces(texts, *target_.tokenizer,
                                     {.tokens = options_.tokens,
                                      .most = options_.max_texts,
                                      .held_out_share = options_.held_out_share}));
  for (const FitPiece& piece : pieces) {
    FitReading reading = reading_of_piece(piece);
    if (reading.pairs.empty()) continue;
    longest_ = std::max({longest_, std::ssize(reading.source_ids), std::ssize(reading.target_ids)});
    readings_.push_back(std::move(reading));
  }
  if (!options_.held_out.empty())
    SUTURE_RETURN_IF_ERROR(write_held_out_texts(options_.held_out, texts, options_.held_out_share));
  files_ = std::move(texts.files);
  kinds_ = std::move(texts.kinds);
  return {};
}

FitReading FitRun::reading_of_piece(const FitPiece& piece) const {
  FitReading reading;
  const auto tokens = static_cast<size_t>(options_.tokens);
  reading.source_ids = reading_of(*source_.tokenizer, piece.text, kTokensForOne * tokens);
  reading.target_ids = reading_of(*target_.tokenizer, piece.text, tokens);
  reading.pairs = pair_tokens(*source_.tokenizer, reading.source_ids, *target_.tokenizer,
                              reading.target_ids, piece.text, kSink);
  if (piece.held_out) reading.held_out_kind = piece.kind;
  return reading;
}

std::vector<ModelLoad> FitRun::loads() const {
  std::vector<ModelLoad> loads(2);
  for (ModelLoad& load : loads) {
    load.role = Role::kSlave;
    load.threads = options_.threads;
    load.max_seq_len = longest_;
    load.max_sequences = kFitTextsAtOnce + 1;  // and the one that is gathered
  }
  loads[0].name = kFitSource;
  loads[0].path = options_.source.path;
  loads[1].name = kFitTarget;
  loads[1].path = options_.target.path;
  return loads;
}

Result<uint64_t> FitRun::models_bytes() const {
  LaunchSpec spec;
  for (const ModelLoad& load : loads()) {
    ModelSpec model;
    model.name = load.name;
    model.path = load.path;
    model.threads = load.threads;
    spec.max_seq_len = load.max_seq_len;
    spec.max_sequences = load.max_sequences;
    spec.models.push_back(std::move(model));
  }
  SUTURE_ASSIGN_OR_RETURN(const LaunchMemory memory, launch_memory(spec, options_.memory_bytes));
  return memory.total_bytes();
}

Status FitRun::plan() {
  FitDemand demand;
  demand.shape = {.source_layers = source_.side.n_layers(),
                  .source_width = static_cast<int32_t>(source_.side.width()),
                  .target_layers = target_.side.n_layers(),
                  .target_width = static_cast<int32_t>(target_.side.width()),
                  .own_layers = options_.own_first_layer ? 1 : 0};
  demand.windows = windows_to_try(options_, source_.side.n_layers());
  demand.windows_are_fixed = !options_.windows.empty();
  demand.n_kinds = static_cast<int32_t>(kinds_.size());
  demand.rows = options_.tokens;
  demand.threads = options_.threads;
  demand.limit_bytes = options_.memory_bytes;
  SUTURE_ASSIGN_OR_RETURN(demand.models_bytes, models_bytes());
  SUTURE_ASSIGN_OR_RETURN(plan_, plan_fit(demand));
  if (plan_.n_kinds < demand.n_kinds) {
    kinds_ = {"all"};
    for (FitReading& reading : readings_)
      if (reading.held_out_kind) reading.held_out_kind = 0;
  }
  surroundings_.on_plan(plan_, std::ssize(readings_));
  binding_ = fit_binding(source_.side, target_.side, plan_.shape, readings_);
  gathered_.emplace(Gathered{.texts = 0,
                             .key = FitMoments(plan_.shape, plan_.n_kinds),
                             .value = FitMoments(plan_.shape, plan_.n_kinds),
                             .times = {}});
  if (!options_.resume) return {};
  const Status resumed =
      read_checkpoint(checkpoint_path(options_.out), binding_, std::ssize(readings_), *gathered_);
  if (!resumed && resumed.error().code != ErrorCode::kNotFound) return resumed;
  if (resumed)
    surroundings_.on_message(
        fmt::format("goes on behind text {} of {}", gathered_->texts, readings_.size()));
  return {};
}

Status FitRun::gather() {
  if (gathered_->texts == std::ssize(readings_)) return {};
  SUTURE_ASSIGN_OR_RETURN(const auto processes,
                          ModelProcesses::start(loads(), {.program = options_.program,
                                                          .on_progress = surroundings_.on_message,
                                                          .cancelled = &surroundings_.cancelled}));
  SUTURE_ASSIGN_OR_RETURN(const auto gathering,
                          TextGathering::create({.processes = *processes,
                                                 .source = source_.side,
                                                 .target = target_.side,
                                                 .readings = readings_,
                                                 .threads = options_.threads}));
  int64_t saved_ns = monotonic_ns();
  const Status done = gathering->run(*gathered_, [&]() -> Status {
    surroundings_.on_progress("text", gathered_->texts, std::ssize(readings_));
    if (surroundings_.cancelled) return fail(ErrorCode::kCancelled, "interrupted", "fit");
    if (seconds_since(saved_ns) < kSaveSeconds) return {};
    saved_ns = monotonic_ns();
    return save();
  });
  if (done || gathered_->texts == 0) return done;
  SUTURE_RETURN_IF_ERROR(save());
  Error error = done.error();
  error.remedy = fmt::format("{} of {} texts are kept in {}: go on with --resume", gathered_->texts,
                             readings_.size(), checkpoint_path(options_.out).string());
  return tl::unexpected<Error>(std::move(error));
}

Status FitRun::save() {
  return write_checkpoint(checkpoint_path(options_.out), binding_, *gathered_);
}

Result<std::vector<RidgeFit>> FitRun::solve(const FitMoments& moments, FitTrials::What what,
                                            FitTrials& trials) const {
  RidgeOptions ridge;
  ridge.windows = plan_.windows;
  ridge.ridges = ridges_to_try(options_);
  ridge.threads = options_.threads;
  const char* const stage = what == FitTrials::What::kKey ? "solve K" : "solve V";
  ridge.on_step = [this, stage](int64_t done, int64_t total) {
    surroundings_.on_progress(stage, done, total);
    return !surroundings_.cancelled.load();
  };
  ridge.on_trial = [&trials, what](const RidgeTrial& trial) { trials.add(what, trial); };
  return fit_ridge(moments.fit(), moments.all_held_out(), ridge);
}

Status FitRun::solve(FitReport& report) {
  const int64_t begun_ns = monotonic_ns();
  const auto keys = solve(gathered_->key, FitTrials::What::kKey, report.trials);
  const auto values = keys ? solve(gathered_->value, FitTrials::What::kValue, report.trials) : keys;
  if (!values) {
    SUTURE_RETURN_IF_ERROR(save());
    return tl::unexpected<Error>(values.error());
  }
  report.projector.source = source_.side;
  report.projector.target = target_.side;
  report.projector.fit = parameters();
  const FittedMaps key{*keys, gathered_->key};
  const FittedMaps value{*values, gathered_->value};
  SUTURE_RETURN_IF_ERROR(set_maps(key, value, DType::kBf16, report.projector));
  std::vector<int64_t> held_out(kinds_.size());
  for (const FitReading& reading : readings_)
    if (reading.held_out_kind) held_out[static_cast<size_t>(*reading.held_out_kind)] += 1;
  report.projector.fit.held_out_kinds = held_out_kinds(key, value, kinds_, held_out);
  report.fitted = fitted_error(key, value, report.projector.fit.texts);
  report.plan = plan_;
  report.times = gathered_->times;
  report.solve_seconds = seconds_since(begun_ns);
  return {};
}

FitParameters FitRun::parameters() const {
  FitParameters fit;
  for (const FitReading& reading : readings_)
    (reading.held_out_kind ? fit.held_out_texts : fit.texts) += 1;
  fit.tokens = gathered_->key.fit().n_rows();
  fit.skipped_tokens = kSink;
  fit.files = files_;
  return fit;
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& out) {
  return out.string() + ".partial";
}

Result<FitReport> run_fit(const FitOptions& options, const FitSurroundings& surroundings) {
  return FitRun(options, surroundings).run();
}

}  // namespace suture
