// The part of a launch in which slaves answer in words: their answers come first, then the master
// is asked with them before the question. Two requests of the coordinator, one after the other, so
// that neither holds K/V while it waits for the other.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/hand_off.h"
#include "actors/launch_state.h"

namespace suture {
namespace {

constexpr const char* kLate = "it had not answered when half of the time to the deadline was over";
constexpr const char* kSilent = "it said nothing";

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

std::string up_to_stop(std::string text, const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) text.resize(std::min(text.size(), text.find(stop)));
  return text;
}

Deadline half_way_to(Deadline deadline) {
  if (deadline == Deadline::max()) return deadline;
  const Deadline now = std::chrono::steady_clock::now();
  return now + (deadline - now) / 2;
}

std::vector<std::string> words_of(const std::vector<DraftedText>& said) {
  std::vector<std::string> words;
  std::ranges::transform(said, std::back_inserter(words), &DraftedText::text);
  return words;
}

}  // namespace

Result<Launch::State::HandedOver> Launch::State::hand_over(const AskOptions& asked,
                                                           const EndWish& wish) {
  HandedOver handed;
  if (std::ranges::none_of(spec.models, &ModelSpec::answers_in_words)) return handed;
  SUTURE_ASSIGN_OR_RETURN(Question question, hand_off_question(asked));
  const EndWish half{half_way_to(wish.deadline), wish.cancelled};
  AnswerReport report =
      report_on(std::move(question), [&half] { return half.reason().has_value(); });
  handed.ended = wish.reason();
  SUTURE_RETURN_IF_ERROR(take_words(std::move(report), handed));
  return handed;
}

// Each slave is asked the question after its documents and the turns before it, as if it were alone
// with the user.
Result<Question> Launch::State::hand_off_question(const AskOptions& asked) {
  Question question{.request = new_request(), .sampling = {}, .ring = {}, .hand_off = true};
  const std::lock_guard lock(text_mutex);
  SUTURE_ASSIGN_OR_RETURN(const auto documents, document_texts(asked.slave_texts));
  const auto conversation = conversations.find(asked.conversation);
  if (asked.conversation != 0 && conversation == conversations.end())
    return no_conversation(asked.conversation);
  std::span<const ChatTurn> turns;
  if (asked.conversation != 0) turns = conversation->second.turns;
  for (size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& model = spec.models[i];
    if (!model.answers_in_words()) continue;
    const auto given = std::ranges::find(documents, model.name, &RequestText::slave);
    const std::string& instead = asked.slave_texts.aligned_text;
    const bool controlled = model.is_slave_at(SlavePosition::kAligned) && !instead.empty();
    const SlavePrompts& prompts = prepared.hand_offs.at(model.name).prompts;
    question.draft_questions.push_back(
        {model.name, prompts.ask(given != documents.end() ? given->token_ids : contexts[i].head_ids,
                                 turns, controlled ? instead : asked.text, spec.max_seq_len)});
  }
  return question;
}

// What came of it; those that were asked and have no answer are told.
Status Launch::State::take_words(AnswerReport report, HandedOver& handed) {
  if (report.outcome.failed) return report.outcome.status();
  handed.figures = std::move(report.figures);
  handed.spans = std::move(report.spans);
  handed.all = drafted_texts(std::move(report.drafts));
  for (const ModelSpec& model : spec.models) {
    if (!model.answers_in_words()) continue;
    const auto draft = std::ranges::find(handed.all, model.name, &DraftedText::slave);
    if (draft == handed.all.end()) {
      const auto lost = std::ranges::find(report.degraded, model.name, &Degraded::slave);
      const bool late = lost == report.degraded.end();
      const std::string why = late ? kLate : lost->why;
      if (model.on_failure == OnFailure::kFail && !handed.ended)
        return fail(late ? ErrorCode::kTimeout : ErrorCode::kLost,
                    "the slave hands nothing over: " + why, model.name,
                    "on_failure = \"degrade\" goes on without it");
      handed.degraded.push_back({model.name, 0, why});
    } else {
      draft->handed_over = true;
      draft->text = up_to_stop(std::move(draft->text), prepared.hand_offs.at(model.name).stop);
      if (is_blank(draft->text))
        handed.degraded.push_back({model.name, 0, kSilent});
      else
        handed.said.push_back(*draft);
    }
  }
  return {};
}

Result<Launch::State::Tail> Launch::State::tail_after(HandedOver& handed, const AskOptions& asked,
                                                      int64_t more_tokens) {
  while (true) {
    SUTURE_ASSIGN_OR_RETURN(
        Tail tail,
        tail_of(asked.conversation, with_context(handed_over(words_of(handed.said)), asked.text)));
    const int64_t tokens = std::ssize(prepared.master_head) + std::ssize(tail.ids) + more_tokens;
    if (handed.said.empty() || tokens <= spec.max_seq_len) return tail;
    handed.degraded.push_back(
        {handed.said.back().slave, 0,
         fmt::format("with what it said the request would need {} tokens, max_seq_len is {}",
                     tokens, spec.max_seq_len)});
    handed.said.pop_back();
  }
}

void Launch::State::add_handed_over(HandedOver handed, Answer& answer) const {
  answer.drafts.insert(answer.drafts.begin(), std::make_move_iterator(handed.all.begin()),
                       std::make_move_iterator(handed.all.end()));
  answer.degraded.insert(answer.degraded.begin(), std::make_move_iterator(handed.degraded.begin()),
                         std::make_move_iterator(handed.degraded.end()));
  answer.spans.insert(answer.spans.begin(), std::make_move_iterator(handed.spans.begin()),
                      std::make_move_iterator(handed.spans.end()));
  add_handed_figures(std::move(handed.figures), answer.figures);
}

void Launch::State::add_handed_figures(std::vector<ProcessFigures> handed,
                                       std::vector<ProcessFigures>& figures) const {
  add_figures(figures, handed);
  figures.clear();
  for (const ModelSpec& model : spec.models) {
    const auto found = std::ranges::find(handed, model.name, &ProcessFigures::name);
    if (found != handed.end()) figures.push_back(std::move(*found));
  }
}

Status Launch::State::refuse_to_hand_over() const {
  const auto asked = std::ranges::find_if(spec.models, &ModelSpec::answers_in_words);
  if (asked == spec.models.end()) return {};
  return fail(ErrorCode::kUnsupported,
              "a question of token ids cannot be put to a slave that answers in words", asked->name,
              "give the question as text");
}

}  // namespace suture
