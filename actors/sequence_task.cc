#include "actors/sequence_task.h"

namespace suture {

Turn SequenceTask::look() {
  if (ended_) return Turn::kDone;
  const Result<Turn> turn = next_turn();
  if (!turn)
    end(tl::unexpected<Error>(turn.error()));
  else if (*turn == Turn::kDone)
    end({});
  return ended_ ? Turn::kDone : *turn;
}

void SequenceTask::end(const Status& outcome) {
  ended_ = true;
  outcome_ = outcome;
}

}  // namespace suture
