// What a slave says by itself after it has read a text, as a sequence of the engine: its draft. The
// rows become a stream of their own, so that whoever reads or follows the text goes on as if there
// was no draft.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/cancellations.h"
#include "actors/messages.h"
#include "actors/model_streams.h"
#include "actors/projected_streams.h"
#include "actors/sequence_task.h"
#include "actors/trace_log.h"
#include "actors/vocabularies.h"
#include "actors/work_meter.h"
#include "models/language_model.h"
#include "models/sampler.h"

namespace suture {

class Drafting final : public SequenceTask {
 public:
  // Of the process it runs in; all must outlive the object.
  struct Engine {
    const std::string& name;
    int64_t longest_sequence;  // tokens
    LanguageModel& model;
    const Vocabularies& vocabularies;
    ModelStreams& streams;
    ProjectedStreams* projected;  // nullptr where rows are published as they are
    const WorkMeter& meter;
  };

  // `on_done` gets the draft, whose stream is kept under the request's key, or why there is none.
  Drafting(ReadRequest request, const Engine& engine, std::shared_ptr<const CancelFlag> cancelled,
           TraceLog trace, std::function<void(ReadDone)> on_done);

  DecodeItem row() override;
  void take_row(const Result<const float*>& logits, int64_t start_ns) override;
  void read_chunk(int64_t grid) override;
  void add_doorbells(std::vector<DoorbellData*>& /*doorbells*/) override {}  // its head is here
  void finish() override;
  OwnerWork work() const override {
    return sampler_ ? OwnerWork::kGenerating : OwnerWork::kReading;
  }
  uint64_t request() const override { return stream_->request.request; }

 protected:
  Result<Turn> next_turn() override;

 private:
  Status prepare();
  Status translate();
  Result<bool> open();
  Status read_on(int64_t grid);
  Status choose(const float* logits);
  Status publish();
  struct MappedDraft {
    std::vector<int32_t> token_ids;  // the master's
    std::vector<int32_t> entries;    // [token_ids] of the stream
  };
  Result<MappedDraft> draft_to_map() const;
  std::vector<int32_t>& ids() { return stream_->token_ids; }
  int64_t drafted() const { return std::ssize(stream_->token_ids) - prompt_; }
  int64_t size() const { return stream_->cache->size(); }

  const std::shared_ptr<OpenStream> stream_;
  const Engine engine_;
  const std::shared_ptr<const CancelFlag> cancelled_;
  TraceLog trace_;
  const std::function<void(ReadDone)> on_done_;
  std::shared_ptr<OpenStream> head_;
  int64_t head_entries_ = 0;  // of the prompt, that the head gives
  int64_t prompt_ = 0;        // tokens that are read; 0 = not prepared yet
  int64_t most_ = 0;          // tokens that are drafted
  const LayerGate gate_;
  std::optional<PromptReader> reader_;
  std::unique_ptr<Sampler> sampler_;  // once the prompt has been read
  bool said_all_ = false;
  int64_t begun_ns_ = 0;
  int64_t drafting_since_ns_ = 0;
  ProcessFigures figures_;
};

}  // namespace suture
