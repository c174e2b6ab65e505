// One answer of the master, as a sequence of the engine: reads its own tokens, then draws token
// after token while its slaves' K/V takes part. A slave that is lost is let go between two tokens;
// if its rows stood in place of the master's own, the master reads their text itself then.
// Where a continuation is to be scored, its tokens are the last that are read, and none is drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/attention_watch.h"
#include "actors/cancellations.h"
#include "actors/messages.h"
#include "actors/model_streams.h"
#include "actors/row_scoring.h"
#include "actors/sequence_task.h"
#include "actors/stitching.h"
#include "actors/trace_log.h"
#include "actors/work_meter.h"
#include "base/error.h"
#include "bus/token_ring.h"
#include "models/bus_kv_cache.h"
#include "models/language_model.h"
#include "models/sampler.h"

namespace suture {

class Generation final : public SequenceTask {
 public:
  // Of the process it runs in; all must outlive the object.
  struct Engine {
    LanguageModel& model;
    const Vocabularies& vocabularies;
    const RowProjectors& projectors;
    RopeCrossing rope_crossing;
    BrokerClient& broker;
    ModelStreams& streams;
    const WorkMeter& meter;
  };

  // `on_done` gets all but the figures of the process.
  Generation(GenerateRequest request, const Engine& engine,
             std::shared_ptr<const CancelFlag> cancelled, TraceLog trace,
             std::function<void(GenerateDone)> on_done);

  DecodeItem row() override;
  void take_row(const Result<const float*>& logits, int64_t start_ns) override;
  void read_chunk(int64_t grid) override;
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override;
  void finish() override;
  OwnerWork work() const override {
    return decode_start_ns_ != 0 ? OwnerWork::kGenerating : OwnerWork::kReading;
  }
  uint64_t request() const override { return request_.request; }

 protected:
  Result<Turn> next_turn() override;

 private:
  Status open_ring();
  Status prepare();
  Status check_scoring() const;
  Status begin_watching();
  AttentionObservation* observation();
  Result<Turn> read_turn();
  Result<Turn> row_turn();
  Status open();
  void begin_text();
  Status lose(const Error& why);
  Status drop_slave(const Error& why);
  Status read_whole();
  void show_rows(int64_t end);
  bool must_reread() const;
  Result<Turn> take_token();
  Result<std::optional<int32_t>> next_token(int64_t index);
  Result<const float*> read_on(int64_t grid);
  Status score_row(int64_t row, const float* logits);
  void advance(const float* logits);
  Status draw(const float* logits);
  void keep_answer(GenerateDone& done);
  void show_waits();
  int64_t generated() const { return std::ssize(text_) - std::ssize(request_.token_ids); }
  int64_t position_of(int64_t entry) const { return suture::position_of(request_.own, entry); }
  // Whose logits say how likely the first scored token is.
  int64_t first_scoring_row() const {
    return std::ssize(request_.token_ids) - request_.scored_tokens - 1;
  }

  GenerateRequest request_;  // of its text there is more once a transfer has failed
  const Engine engine_;
  const std::shared_ptr<const CancelFlag> cancelled_;
  TraceLog trace_;
  const std::function<void(GenerateDone)> on_done_;
  std::optional<TokenRingWriter> ring_;
  std::vector<int32_t> text_;  // all own tokens so far
  std::unique_ptr<Stitching> stitching_;
  std::unique_ptr<Sampler> sampler_;
  std::optional<RowScoring> scoring_;        // where tokens are scored
  std::optional<AttentionWatcher> watcher_;  // where somebody asks where the master looks
  std::unique_ptr<BusKvCache> cache_;
  const LayerGate gate_;
  std::optional<PromptReader> reader_;  // of the part of the text that is read now

  // Entries below are read, later ones generated: up to the question, or further where the text had
  // to be read again.
  int64_t read_end_ = 0;
  int64_t shown_end_ = 0;  // the slaves' rows are laid out for rows up to this entry
  int64_t part_end_ = 0;   // of the part of the text that is read now
  int64_t part_begin_ = 0;
  int64_t part_start_ns_ = 0;
  std::optional<int32_t> drawn_;  // the token after the text, not pushed yet
  int64_t row_start_ns_ = 0;      // when the last token was pushed
  int64_t begun_ns_ = 0;
  int64_t decode_start_ns_ = 0;  // 0 = the text is being read
  FinishReason reason_ = FinishReason::kLength;
  ProcessFigures figures_;
  ProcessFigures shown_;  // of these, the waits that the meter has shown
};

}  // namespace suture
