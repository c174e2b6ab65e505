// The part of the coordinator that has slaves go on by themselves: each reads the request, says its
// draft, and the master begins when all drafts are there, since their length gives the positions.
#include <algorithm>
#include <utility>

#include "actors/coordinator.h"
#include "kernels/kv_layout.h"

namespace suture {
namespace {

// Of a text that comes in another vocabulary: own tokens for one of its tokens, and those that two
// readings of it may end with differently.
constexpr int64_t kTokensForOne = 2;
constexpr int64_t kTokensHeld = 64;

}  // namespace

bool Coordinator::drafts_for(const RunningRequest& running, size_t index) const {
  if (!model(index).drafts() || !is_concerned(running, index)) return false;
  if (model(index).hands_over()) return is_asked(running, index);
  if (model(index).transfers()) return transfer_end(running) > 0;
  if (model(index).is_slave_at(SlavePosition::kAligned)) return true;
  const RequestText* text = text_of(running, index);
  const ModelContext& context = setup_.contexts[index];
  return text != nullptr ? text->shared_tokens < std::ssize(text->token_ids)
                         : context.shared_tokens < std::ssize(context.head_ids);
}

int64_t Coordinator::draft_entry(const RunningRequest& running) const {
  bool any = false;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) any = any || drafts_for(running, i);
  if (!any) return INT64_MAX;
  const Question& question = running.question;
  return std::ssize(running.own_ids) -
         std::clamp<int64_t>(question.opening_tokens + question.scored_tokens, 1,
                             std::ssize(question.tail_ids));
}

// An aligned slave reads the master's prompt, a prefix slave what it has read and the question.
std::vector<int32_t> Coordinator::draft_prompt(const RunningRequest& running, size_t index) const {
  const Question& question = running.question;
  const RequestText* text = text_of(running, index);
  const auto own =
      std::ranges::find(question.draft_questions, model(index).name, &DraftQuestion::slave);
  if (question.hand_off) return own->token_ids;
  if (model(index).is_slave_at(SlavePosition::kAligned)) {
    std::vector<int32_t> prompt = text != nullptr ? text->token_ids : running.own_ids;
    prompt.resize(prompt.size() - static_cast<size_t>(question.scored_tokens));
    return prompt;
  }
  std::vector<int32_t> prompt = text != nullptr ? text->token_ids : setup_.contexts[index].head_ids;
  if (own != question.draft_questions.end())
    prompt.insert(prompt.end(), own->token_ids.begin(), own->token_ids.end());
  else
    prompt.insert(prompt.end(), question.tail_ids.begin(),
                  question.tail_ids.end() - question.scored_tokens);
  return prompt;
}

std::span<const int32_t> Coordinator::draft_head(const RunningRequest& running,
                                                 size_t index) const {
  if (reads_for_request(running, index)) return prompt_of(running, index);
  return setup_.contexts[index].head_ids;
}

void Coordinator::start_draft(RunningRequest& running, size_t index, std::vector<Outgoing>& out) {
  const Reading* head = reading_of(running, index);
  const bool there = head != nullptr && head->why.empty();
  if (!there && !running.question.hand_off) return;
  if (const auto gone = gone_.find(model(index).name); gone != gone_.end()) {
    if (running.question.hand_off)
      running.lost.insert({index, {model(index).name, 0, gone->second.why}});
    return;
  }
  const auto own = running.own_readings.find(index);
  ReadRequest request;
  request.token_ids = draft_prompt(running, index);
  request.capacity = std::ssize(request.token_ids);
  if (there)
    request.head_key = own != running.own_readings.end() ? own->second : contexts_.at(index);
  request.request = running.question.request;
  request.text_of = text_owner(index);
  request.draft = {model(index).fusion.draft, setup_.contexts[index].end_ids};
  const uint64_t key = start_reading(index, std::move(request), out);
  running.drafts[index] = key;
  running.awaited.insert(key);
}

// Blocks of what the draft does not share with the stream that it begins with.
int64_t Coordinator::draft_blocks(const RunningRequest& running, size_t index) const {
  const auto prompt = draft_prompt(running, index);
  int64_t read = std::ssize(prompt) - common_prefix(draft_head(running, index), prompt);
  if (!text_owner(index).empty()) read = read * kTokensForOne + kTokensHeld;
  return kv_blocks_for(read + model(index).fusion.draft) + 1;
}

const Reading* Coordinator::draft_of(const RunningRequest& running, size_t index) const {
  const auto found = running.drafts.find(index);
  return found == running.drafts.end() ? nullptr : &readings_.at(found->second);
}

// `read` is the link to what the slave has read.
void Coordinator::add_draft(const RunningRequest& running, const SourceLink& read,
                            MergeInput& input, std::vector<SourceLink>& links) const {
  const Reading* reading = draft_of(running, index_of(read.name));
  if (reading == nullptr || !reading->draft || reading->draft->stream.owner.empty()) return;
  SourceLink link = read;
  link.stream = reading->draft->stream;
  link.other_vocabulary = false;  // its rows are no rows of the master's text
  link.draft = true;
  links.push_back(std::move(link));
  MergeSource source{.name = read.name, .layer_gain = input.sources.back().layer_gain};
  source.draft_begin = reading->draft->begin;
  source.draft_end = reading->draft->end;
  input.sources.push_back(std::move(source));
}

void Coordinator::drop_drafts(RunningRequest& running, std::vector<Outgoing>& out) {
  for (const auto& [index, key] : running.drafts) {
    const Reading& reading = readings_.at(key);
    if (reading.draft)
      running.report.drafts.push_back(
          {model(index).name, reading.draft->token_ids, said_in_seconds(running, index)});
    out.emplace_back(model(index).name, DropStream{key});
    readings_.erase(key);
  }
  running.drafts.clear();
}

void Coordinator::cancel_readings(const RunningRequest& running, std::vector<Outgoing>& out) const {
  for (const auto* keys : {&running.own_readings, &running.drafts})
    for (const auto& [index, key] : *keys) out.emplace_back(model(index).name, CancelRequest{key});
}

}  // namespace suture
