#include "launcher/transfer/transfer_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "fusion/projector_file.h"
#include "launcher/transfer/sample_texts.h"

namespace suture {
namespace {

const std::vector<int64_t> kDefaultLengths = {128, 256, 512, 1024, 2048, 4096, 8192};

// A projector's evidence is not asked for: it is measured here.
Status check_pair(const TransferOptions& options, TransferBenchmark& benchmark) {
  const TransferModel& source = benchmark.source;
  const TransferModel& target = benchmark.target;
  if (benchmark.projector) {
    SUTURE_ASSIGN_OR_RETURN(
        benchmark.report.forced,
        check_projector_sides(*benchmark.projector, source.side(), target.side(), options.force));
    return {};
  }
  if (options.write_evidence)
    return fail(ErrorCode::kInvalidArgument, "there is no projector for the evidence",
                "--write-evidence", "name its file with --projector");
  if (source.fingerprint == target.fingerprint) return {};
  return fail(
      ErrorCode::kIncompatible,
      fmt::format("the rows of {} say nothing to {} without a projector", source.text, target.text),
      "--projector",
      fmt::format("fit one: suture fit --source {} --target {} --text FILES --out P.suture",
                  source.text, target.text));
}

// Texts that the projector has seen would flatter it.
Status take_held_out(const TransferOptions& options, const Projector& projector,
                     std::vector<SampleText>& texts, TransferReport& report) {
  std::vector<SampleText> held_out = texts;
  report.fitted = remove_fitted(held_out, projector.fit);
  if (report.fitted == 0) return {};
  if (!options.held_out && !options.force)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} of {} texts are among those that the projector was fitted to",
                            report.fitted, texts.size()),
                "--text", "give others; --held-out leaves these out, --force measures them");
  if (options.held_out) {
    report.notes.push_back(
        fmt::format("{} of {} texts were left out: the projector was fitted to "
                    "them",
                    report.fitted, texts.size()));
    texts = std::move(held_out);
    return {};
  }
  report.fitted_measured = true;
  report.notes.push_back(
      fmt::format("the projector was fitted to {} of {} texts", report.fitted, texts.size()));
  return {};
}

// The tokens of as much of the text as `most` tokens can need.
std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const std::string& text, int64_t most) {
  constexpr int64_t kBytesForOne = 64;
  const auto bytes = static_cast<size_t>(most * kBytesForOne);
  return tokenizer.encode(std::string_view(text).substr(0, bytes), SpecialTokens::kAsText);
}

Status load_texts(const TransferOptions& options, int64_t most, TransferBenchmark& benchmark) {
  TransferReport& report = benchmark.report;
  SUTURE_ASSIGN_OR_RETURN(SampleTexts loaded,
                          load_sample_texts({options.texts.begin(), options.texts.end()}));
  report.duplicates = loaded.duplicates;
  if (loaded.duplicates > 0)
    report.notes.push_back(fmt::format("{} texts came twice and count once", loaded.duplicates));
  if (benchmark.projector)
    SUTURE_RETURN_IF_ERROR(take_held_out(options, *benchmark.projector, loaded.texts, report));
  for (const SampleText& text : loaded.texts)
    benchmark.texts.push_back({text.kind, tokens_of(*benchmark.target.tokenizer, text.text, most)});
  report.texts = std::ssize(benchmark.texts);
  return {};
}

Status check_length(const TransferOptions& options, int64_t tokens) {
  if (tokens > options.sink + options.reread && tokens > 2) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("of {} tokens {} are read again, and nothing is left to transfer", tokens,
                          options.sink + options.reread),
              "--lengths", "give longer contexts, or fewer tokens to --sink and --reread");
}

// The lengths that both models have positions for; those that were asked for must be among them.
Result<std::vector<int64_t>> usable_lengths(const TransferOptions& options,
                                            TransferBenchmark& benchmark) {
  std::vector<int64_t> lengths = options.lengths.empty() ? kDefaultLengths : options.lengths;
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  const int64_t positions =
      std::min(benchmark.source.config.max_positions, benchmark.target.config.max_positions);
  const int64_t most = positions - options.continued;
  if (!options.lengths.empty() && lengths.back() > most)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens and {} after them, the models have {} positions",
                            lengths.back(), options.continued, positions),
                "--lengths");
  const auto left_out = std::erase_if(lengths, [&](int64_t tokens) { return tokens > most; });
  if (left_out > 0)
    benchmark.report.notes.push_back(fmt::format(
        "contexts above {} tokens were left out: the models have {} positions", most, positions));
  if (options.lengths.empty())
    std::erase_if(lengths, [&](int64_t tokens) { return !check_length(options, tokens); });
  if (lengths.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the models have {} positions, too few for any of the contexts", positions),
        "--lengths", "give shorter ones");
  SUTURE_RETURN_IF_ERROR(check_length(options, lengths.front()));
  return lengths;
}

Status check_texts_reach(const TransferOptions& options, const TransferBenchmark& benchmark) {
  const auto judged = [](const LengthPlan& plan) { return !plan.joined; };
  if (std::ranges::any_of(benchmark.plans, judged)) return {};
  int64_t longest = 0;
  for (const TokenText& text : benchmark.texts) longest = std::max(longest, std::ssize(text.ids));
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("no text has the {} tokens of the shortest context and the {} after it; "
                          "the longest has {}",
                          benchmark.plans.front().tokens, options.continued, longest),
              "--text", "give longer texts, or shorter --lengths");
}

// What the source reads for the target's tokens.
std::function<std::vector<int32_t>(const std::vector<int32_t>&)> source_tokens(
    const TransferBenchmark& benchmark) {
  const auto source = benchmark.source.tokenizer;
  const auto target = benchmark.target.tokenizer;
  if (source->vocabulary_hash() == target->vocabulary_hash())
    return [](const std::vector<int32_t>& ids) { return ids; };
  return [source, target](const std::vector<int32_t>& ids) {
    return source->encode(target->decode(ids), SpecialTokens::kAsText);
  };
}

}  // namespace

Result<TransferBenchmark> prepare_transfer(const TransferOptions& options) {
  TransferBenchmark benchmark;
  SUTURE_ASSIGN_OR_RETURN(benchmark.source, open_transfer_model(options.source));
  SUTURE_ASSIGN_OR_RETURN(benchmark.target, open_transfer_model(options.target));
  if (!options.projector.empty()) {
    SUTURE_ASSIGN_OR_RETURN(benchmark.projector, read_projector(options.projector));
  }
  SUTURE_RETURN_IF_ERROR(check_pair(options, benchmark));
  SUTURE_ASSIGN_OR_RETURN(const auto lengths, usable_lengths(options, benchmark));
  SUTURE_RETURN_IF_ERROR(load_texts(options, lengths.back() + options.continued, benchmark));
  SUTURE_ASSIGN_OR_RETURN(benchmark.plans,
                          plan_transfer(benchmark.texts, {.lengths = lengths,
                                                          .continued = options.continued,
                                                          .head = benchmark.target.head(),
                                                          .limit = options.limit,
                                                          .seed = options.seed}));
  SUTURE_RETURN_IF_ERROR(check_texts_reach(options, benchmark));
  TransferReport& report = benchmark.report;
  report.source = options.source;
  report.target = options.target;
  report.projector = options.projector;
  report.sink = options.sink;
  report.reread = options.reread;
  report.continued = options.continued;
  report.threads = options.threads;
  report.seed = options.seed;
  return benchmark;
}

TransferSetup transfer_setup(const TransferOptions& options, const TransferBenchmark& benchmark) {
  TransferSetup setup;
  setup.source = kTransferSource;
  setup.target = kTransferTarget;
  setup.source_tokens = source_tokens(benchmark);
  setup.beginning = benchmark.target.beginning();
  setup.target_cost = reading_flop(benchmark.target.config, 1);
  setup.source_cost = reading_flop(benchmark.source.config, 1);
  TransferLaunchOptions launch{.projector = options.projector,
                               .sink = options.sink,
                               .reread = options.reread,
                               .threads = options.threads};
  // A launch's own beginning of a text, and one more token where contexts are timed.
  constexpr int64_t kMore = 2;
  launch.max_seq_len = 0;
  for (const LengthPlan& plan : benchmark.plans) {
    const int64_t source = std::ssize(setup.source_tokens(plan.timed));
    launch.max_seq_len =
        std::max({launch.max_seq_len, source + kMore, plan.tokens + options.continued + kMore});
    for (const Passage& passage : plan.passages)
      launch.max_seq_len = std::max(
          launch.max_seq_len, std::ssize(setup.source_tokens(passage.context)) +
                                  std::ssize(setup.source_tokens(passage.continuation)) + kMore);
  }
  setup.target_alone = alone_launch(benchmark.target, kTransferTarget, launch);
  setup.source_alone = alone_launch(benchmark.source, kTransferSource, launch);
  setup.transferring = transferring_launch(benchmark.source, benchmark.target, launch);
  setup.text_only = text_only_launch(benchmark.source, benchmark.target, launch);
  return setup;
}

}  // namespace suture
