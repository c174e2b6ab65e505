// Who of the sequences of a model process goes next. In each round all that are ready decode one
// token in one step, and then one prompt is read on by one chunk, which is a short one while others
// decode: a new prompt never holds them up for longer. A sequence whose slave, reader or head is
// not ready sits out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/engine_thread.h"
#include "actors/sequence_task.h"
#include "actors/work_meter.h"
#include "models/language_model.h"

namespace suture {

// Used by the engine thread. What a row holds depends on its sequence alone, so neither order nor
// company shows in any result.
class BatchScheduler final : public EngineWork {
 public:
  // Both must outlive the object.
  BatchScheduler(LanguageModel& model, const WorkMeter& meter) : model_(model), meter_(meter) {}

  void add(std::unique_ptr<SequenceTask> task);
  size_t size() const { return entries_.size(); }

  bool work() override;
  bool ready() override;
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override;

 private:
  struct Entry {
    std::unique_ptr<SequenceTask> task;
    Turn turn = Turn::kWait;
    uint64_t last_chunk = 0;  // number of the chunk after which its turn to read comes again
  };

  void look();
  bool step();
  void decode(size_t first, size_t count);
  bool finish_ended();
  bool read_chunk();
  void show_work() const;

  LanguageModel& model_;
  const WorkMeter& meter_;
  std::vector<Entry> entries_;  // in the order they came
  uint64_t chunks_ = 0;         // read so far
  // Of the step in progress: who takes part, and with which rows.
  std::vector<SequenceTask*> taking_part_;
  std::vector<DecodeItem> rows_;
};

}  // namespace suture
