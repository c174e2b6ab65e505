#include "launcher/fit/gathering.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "actors/trace_log.h"

namespace suture {
namespace {

double own_cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

// A stream of that model, of whatever text.
bool is_stream_of(StreamInfo info, const ProjectorSide& side) {
  info.token_ids.clear();
  info.text_offsets.clear();
  info.visibility = side.kv.visibility;
  return info == side.kv;
}

std::vector<int32_t> entries_of(const std::vector<TokenPair>& pairs, int32_t TokenPair::*side) {
  std::vector<int32_t> entries;
  entries.reserve(pairs.size());
  for (const TokenPair& pair : pairs) entries.push_back(pair.*side);
  return entries;
}

}  // namespace

Result<std::unique_ptr<TextGathering>> TextGathering::create(const GatheringSetup& setup) {
  std::unique_ptr<TextGathering> gathering(new TextGathering(setup));
  SUTURE_ASSIGN_OR_RETURN(gathering->device_, open_device("cpu", setup.threads));
  SUTURE_ASSIGN_OR_RETURN(gathering->stream_, gathering->device_->make_stream());
  return gathering;
}

Status TextGathering::run(Gathered& gathered, const std::function<Status()>& on_text) {
  std::deque<Asked> asked;
  const auto n = std::ssize(setup_.readings);
  const auto at = [this](int64_t i) -> const FitReading& {
    return setup_.readings[static_cast<size_t>(i)];
  };
  const auto ask_ahead = [&] {
    while (std::ssize(asked) < kFitTextsAtOnce && gathered.texts + std::ssize(asked) < n)
      asked.push_back(ask(at(gathered.texts + std::ssize(asked))));
  };
  const GatheringTimes before = gathered.times;
  const int64_t begun_ns = monotonic_ns();
  const double own_cpu = own_cpu_seconds();
  const double models_cpu = setup_.processes.cpu_seconds();
  while (gathered.texts < n) {
    ask_ahead();
    const FitReading& reading = at(gathered.texts);
    SUTURE_RETURN_IF_ERROR(take(reading, asked.front()));
    asked.pop_front();
    add(reading, gathered);
    gathered.times.wall_seconds = before.wall_seconds + seconds_since(begun_ns);
    gathered.times.gather_cpu_seconds = before.gather_cpu_seconds + own_cpu_seconds() - own_cpu;
    gathered.times.models_cpu_seconds =
        before.models_cpu_seconds + setup_.processes.cpu_seconds() - models_cpu;
    SUTURE_RETURN_IF_ERROR(on_text());
  }
  return {};
}

TextGathering::Asked TextGathering::ask(const FitReading& reading) {
  return {setup_.processes.read(kFitSource, reading.source_ids),
          setup_.processes.read(kFitTarget, reading.target_ids)};
}

Status TextGathering::take(const FitReading& reading, const Asked& asked) {
  SUTURE_RETURN_IF_ERROR(take_rows(asked.source_key, entries_of(reading.pairs, &TokenPair::source),
                                   setup_.source, kFitSource, rows_.source));
  return take_rows(asked.target_key, entries_of(reading.pairs, &TokenPair::target), setup_.target,
                   kFitTarget, rows_.target);
}

Status TextGathering::take_rows(uint64_t key, const std::vector<int32_t>& entries,
                                const ProjectorSide& side, const char* process, PlainRows& rows) {
  {
    SUTURE_ASSIGN_OR_RETURN(const TextStream text, setup_.processes.wait(key));
    if (!is_stream_of(text.info, side) || text.reader.shape() != side.kv.shape)
      return fail(ErrorCode::kCorrupt, "its stream is not that of the model which it was to load",
                  process, "was the model's file replaced meanwhile?");
    SUTURE_RETURN_IF_ERROR(read_plain_rows(*stream_, text.info, text.reader, entries, rows));
  }
  setup_.processes.drop(key);
  return {};
}

void TextGathering::add(const FitReading& reading, Gathered& gathered) {
  const auto rows_of = [](std::vector<float>& source, std::vector<float>& target, int64_t n) {
    return FitMoments::Rows{.source = source, .target = target, .n_rows = n};
  };
  const int64_t n = rows_.source.n_rows;
  gathered.key.add(rows_of(rows_.source.key, rows_.target.key, n), reading.held_out_kind,
                   setup_.threads);
  gathered.value.add(rows_of(rows_.source.value, rows_.target.value, n), reading.held_out_kind,
                     setup_.threads);
  gathered.times.source_tokens += std::ssize(reading.source_ids);
  gathered.times.target_tokens += std::ssize(reading.target_ids);
  gathered.texts += 1;
}

}  // namespace suture
