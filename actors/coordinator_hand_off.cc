// The part of the coordinator that lets slaves answer in words: each by itself, from what it reads
// itself, and none of them is waited for once it is lost.
#include <algorithm>
#include <utility>

#include "actors/coordinator.h"

namespace suture {

bool Coordinator::is_asked(const RunningRequest& running, size_t index) const {
  const auto& asked = running.question.draft_questions;
  return std::ranges::find(asked, model(index).name, &DraftQuestion::slave) != asked.end();
}

// Ends the request once everybody has answered, or cannot.
void Coordinator::finish_hand_off(RunningRequest& running) {
  const auto complete = [this](const auto& draft) { return readings_.at(draft.second).complete; };
  if (!std::ranges::all_of(running.drafts, complete)) return;
  note_silent(running);
  GenerateDone done;
  done.request = running.question.request;
  running.done = std::move(done);
}

// Who answered and was lost afterwards is not missed.
void Coordinator::note_silent(RunningRequest& running) const {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    if (!drafts_for(running, i)) continue;
    const Reading* answer = draft_of(running, i);
    if (const auto lost = running.lost.find(i); lost != running.lost.end())
      running.report.degraded.push_back(lost->second);
    else if (answer != nullptr && answer->complete && !answer->draft)
      running.report.degraded.push_back({model(i).name, 0, answer->why});
  }
}

double Coordinator::said_in_seconds(const RunningRequest& running, size_t index) const {
  const uint64_t key = running.drafts.at(index);
  const double seconds = readings_.at(key).draft->seconds;
  const auto read = std::ranges::find(running.reads, key, &ReadDone::key);
  if (!running.question.hand_off || read == running.reads.end()) return seconds;
  return seconds + read->figures.prefill_seconds;
}

}  // namespace suture
