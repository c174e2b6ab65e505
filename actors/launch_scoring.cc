// The part of a launch that gives texts to slaves for one request, and scores continuations.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "actors/launch_state.h"

namespace suture {
namespace {

constexpr size_t kMaxContinuations = 1024;

Status validate(const ScoreOptions& options) {
  if (options.continuations.empty() || options.continuations.size() > kMaxContinuations)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} continuations to score, 1 to {} are possible",
                            options.continuations.size(), kMaxContinuations),
                "request");
  if (std::ranges::any_of(options.continuations, &std::string::empty))
    return fail(ErrorCode::kInvalidArgument, "a continuation is empty", "request");
  return {};
}

Status validate(const TokenScoreOptions& options) {
  if (options.continuation.empty())
    return fail(ErrorCode::kInvalidArgument, "the continuation is empty", "request");
  if (!options.aligned.empty() && options.aligned.size() != options.question.size())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("aligned slaves are given {} tokens for {}", options.aligned.size(),
                            options.question.size()),
                "request");
  if (options.detail.top < 0 || options.detail.watched.size() % options.continuation.size() != 0)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} best tokens, {} watched ones for {} tokens", options.detail.top,
                            options.detail.watched.size(), options.continuation.size()),
                "request");
  return {};
}

// The last `size` tokens of the text, or of the text written again and again.
std::vector<int32_t> fitted(const std::vector<int32_t>& ids, int64_t size) {
  std::vector<int32_t> fitted(static_cast<size_t>(size));
  for (int64_t i = 1; i <= size; ++i)
    fitted[static_cast<size_t>(size - i)] =
        ids[static_cast<size_t>(std::ssize(ids) - 1 - (i - 1) % std::ssize(ids))];
  return fitted;
}

ScoredToken scored_token(int32_t id, const TokenScore& score) {
  ScoredToken scored{.id = id, .logprob = score.logprob(), .best = score.best};
  for (size_t i = 0; i < score.top.size(); ++i)
    scored.top.push_back({score.top[i], std::bit_cast<float>(score.top_bits[i])});
  for (const uint32_t bits : score.watched_bits)
    scored.watched.push_back(std::bit_cast<float>(bits));
  return scored;
}

void take_over(AnswerReport report, std::span<const int32_t> ids, Scoring& scoring) {
  ScoredContinuation& scored = scoring.continuations.emplace_back();
  for (size_t i = 0; i < ids.size(); ++i)
    scored.tokens.push_back(scored_token(ids[i], report.scores[i]));
  add_figures(report.figures, scoring.figures);
  for (Degraded& lost : report.degraded)
    if (std::ranges::find(scoring.degraded, lost.slave, &Degraded::slave) == scoring.degraded.end())
      scoring.degraded.push_back(std::move(lost));
}

}  // namespace

const SlavePrompts* Launch::State::document_prompts(const std::string& slave) const {
  const auto model = std::ranges::find(spec.models, slave, &ModelSpec::name);
  if (model == spec.models.end() || !model->is_slave_at(SlavePosition::kPrefix)) return nullptr;
  if (model->hands_over()) return &prepared.hand_offs.at(slave).prompts;
  return &prepared.slave_prompts.at(slave);
}

Result<std::vector<RequestText>> Launch::State::document_texts(const SlaveTexts& texts) const {
  std::vector<RequestText> read;
  for (const SlaveDocuments& documents : texts.documents) {
    const SlavePrompts* prompts = document_prompts(documents.slave);
    if (prompts == nullptr)
      return fail(ErrorCode::kInvalidArgument, "no slave of this name reads documents",
                  documents.slave, "name a slave with position = \"prefix\"");
    if (std::ranges::find(read, documents.slave, &RequestText::slave) != read.end())
      return fail(ErrorCode::kInvalidArgument, "its documents are given twice", documents.slave);
    if (documents.texts.empty() || std::ranges::any_of(documents.texts, &std::string::empty))
      return fail(ErrorCode::kInvalidArgument, "a document is empty", documents.slave);
    read.push_back(prompts->read(documents.slave, documents.texts));
  }
  return read;
}

Result<std::vector<RequestText>> Launch::State::slave_texts(const SlaveTexts& texts,
                                                            const std::vector<int32_t>& tail,
                                                            int64_t scored) {
  const std::lock_guard lock(text_mutex);
  SUTURE_ASSIGN_OR_RETURN(std::vector<RequestText> read, document_texts(texts));
  std::erase_if(
      read, [this](const RequestText& text) { return prepared.hand_offs.contains(text.slave); });
  if (texts.aligned_text.empty()) return read;
  const int64_t question = std::ssize(tail) - scored;
  const std::vector<int32_t> other = fitted(prepared.prompts->tail(texts.aligned_text), question);
  for (RequestText& text : aligned_texts(other, std::span(tail).last(static_cast<size_t>(scored))))
    read.push_back(std::move(text));
  return read;
}

std::vector<RequestText> Launch::State::aligned_texts(const std::vector<int32_t>& question,
                                                      std::span<const int32_t> scored) const {
  std::vector<int32_t> whole = prepared.master_head;
  whole.insert(whole.end(), question.begin(), question.end());
  whole.insert(whole.end(), scored.begin(), scored.end());
  std::vector<RequestText> read;
  for (const ModelSpec& model : spec.models)
    if (model.is_slave_at(SlavePosition::kAligned) && !model.hands_over())
      read.push_back({.slave = model.name, .token_ids = whole});
  return read;
}

AnswerReport Launch::State::report_on(Question question,
                                      const std::function<bool()>& cancel_wanted) {
  const uint64_t request = question.request;
  {
    const std::lock_guard lock(mutex);
    running[request];
  }
  processes->ask(std::move(question));
  bool told = false;
  std::optional<AnswerReport> report;
  while (!report) {
    if (!told && cancel_wanted()) {
      processes->cancel(request);
      told = true;
    }
    report = take_report(request, kReportSlice);
  }
  {
    const std::lock_guard lock(mutex);
    running.erase(request);
  }
  return std::move(*report);
}

Result<AnswerReport> Launch::State::run(Question question, const std::atomic<bool>& cancelled) {
  if (cancelled.load()) return fail(ErrorCode::kCancelled, "the request was cancelled", "request");
  AnswerReport report = report_on(std::move(question), [&] { return cancelled.load(); });
  if (report.outcome.failed) return tl::unexpected<Error>(report.outcome.status().error());
  if (report.reason == FinishReason::kCancelled)
    return fail(ErrorCode::kCancelled, "the request was cancelled", "request");
  return report;
}

// The continuations are turns of a conversation that nobody else knows of, each of which takes back
// the one before: what they have in common is read once.
Result<Scoring> Launch::score(const ScoreOptions& options, const std::atomic<bool>& cancelled) {
  State& state = *state_;
  SUTURE_RETURN_IF_ERROR(validate(options));
  const auto ticket = state.admission->enter({options.client, 0}, Deadline::max(), cancelled);
  if (!ticket) return tl::unexpected<Error>(ticket.error());
  const int64_t begun_ns = monotonic_ns();
  const AskOptions asked{.text = options.text, .sampling = {}, .slave_texts = options.slave_texts};
  SUTURE_ASSIGN_OR_RETURN(State::HandedOver handed,
                          state.hand_over(asked, {Deadline::max(), cancelled}));
  if (handed.ended) return fail(ErrorCode::kCancelled, "the request was cancelled", "request");
  SUTURE_ASSIGN_OR_RETURN(const State::Tail tail,
                          state.tail_after(handed, asked, state.longest(options.continuations)));
  const std::vector<int32_t>& question = tail.ids;
  const uint64_t conversation = state.new_conversation();
  Scoring scoring;
  scoring.forced = state.prepared.forced;
  scoring.degraded = std::move(handed.degraded);
  scoring.question_ids = state.prepared.master_head;
  scoring.question_ids.insert(scoring.question_ids.end(), question.begin(), question.end());
  Status status;
  for (const std::string& continuation : options.continuations) {
    status = state.score(options, question, continuation, conversation, cancelled, scoring);
    if (!status) break;
  }
  state.processes->release(conversation);
  if (!status) return tl::unexpected<Error>(status.error());
  state.add_handed_figures(std::move(handed.figures), scoring.figures);
  scoring.seconds = seconds_since(begun_ns);
  return scoring;
}

int64_t Launch::State::longest(const std::vector<std::string>& continuations) {
  const std::lock_guard lock(text_mutex);
  int64_t most = 0;
  for (const std::string& text : continuations)
    most = std::max(most, std::ssize(prepared.prompts->answer(text)));
  return most;
}

Status Launch::State::score(const ScoreOptions& options, const std::vector<int32_t>& question,
                            const std::string& continuation, uint64_t conversation,
                            const std::atomic<bool>& cancelled, Scoring& scoring) {
  std::vector<int32_t> ids;
  {
    const std::lock_guard lock(text_mutex);
    ids = prepared.prompts->answer(continuation);
  }
  Question asked{.request = new_request(),
                 .tail_ids = question,
                 .sampling = {},
                 .ring = {},
                 .conversation = conversation,
                 .scored_tokens = std::ssize(ids)};
  asked.tail_ids.insert(asked.tail_ids.end(), ids.begin(), ids.end());
  SUTURE_ASSIGN_OR_RETURN(asked.texts,
                          slave_texts(options.slave_texts, asked.tail_ids, asked.scored_tokens));
  SUTURE_ASSIGN_OR_RETURN(asked.watch, watch(options.attention, asked.tail_ids, asked.texts));
  add_drafting(options.text, asked);
  return score(std::move(asked), cancelled, scoring);
}

Status Launch::State::score(Question question, const std::atomic<bool>& cancelled,
                            Scoring& scoring) {
  const std::vector<int32_t> ids(question.tail_ids.end() - question.scored_tokens,
                                 question.tail_ids.end());
  const auto top = static_cast<size_t>(question.score_detail.top);
  const size_t watched = question.score_detail.watched.size() / ids.size();
  SUTURE_ASSIGN_OR_RETURN(AnswerReport report, run(std::move(question), cancelled));
  const auto whole = [&](const TokenScore& score) {
    return score.top.size() <= top && score.top_bits.size() == score.top.size() &&
           score.watched_bits.size() == watched;
  };
  if (report.scores.size() != ids.size() || !std::ranges::all_of(report.scores, whole))
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} scores for {} tokens, or other ones than were asked for",
                            report.scores.size(), ids.size()),
                "request");
  SUTURE_RETURN_IF_ERROR(check(report.attention));
  SUTURE_RETURN_IF_ERROR(add(scoring.attention, report.attention));
  take_over(std::move(report), ids, scoring);
  return {};
}

Result<Scoring> Launch::score(const TokenScoreOptions& options,
                              const std::atomic<bool>& cancelled) {
  State& state = *state_;
  SUTURE_RETURN_IF_ERROR(validate(options));
  SUTURE_RETURN_IF_ERROR(state.refuse_to_hand_over());
  const auto ticket = state.admission->enter({options.client, 0}, Deadline::max(), cancelled);
  if (!ticket) return tl::unexpected<Error>(ticket.error());
  const int64_t begun_ns = monotonic_ns();
  Question question{.request = state.new_request(),
                    .tail_ids = options.question,
                    .sampling = {},
                    .ring = {},
                    .scored_tokens = std::ssize(options.continuation),
                    .score_detail = options.detail};
  question.tail_ids.insert(question.tail_ids.end(), options.continuation.begin(),
                           options.continuation.end());
  if (!options.aligned.empty())
    question.texts = state.aligned_texts(options.aligned, options.continuation);
  Scoring scoring;
  scoring.forced = state.prepared.forced;
  scoring.question_ids = state.prepared.master_head;
  scoring.question_ids.insert(scoring.question_ids.end(), options.question.begin(),
                              options.question.end());
  SUTURE_RETURN_IF_ERROR(state.score(std::move(question), cancelled, scoring));
  scoring.seconds = seconds_since(begun_ns);
  return scoring;
}

}  // namespace suture
