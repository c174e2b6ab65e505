// A published stream that is read into, as a sequence of the engine: a text, and then, if it is
// wanted, the tokens of a master's answer as they come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/cancellations.h"
#include "actors/messages.h"
#include "actors/model_streams.h"
#include "actors/sequence_task.h"
#include "actors/text_parts.h"
#include "actors/trace_log.h"
#include "actors/work_meter.h"
#include "bus/broker_client.h"
#include "bus/token_ring.h"
#include "models/language_model.h"

namespace suture {

class StreamReading final : public SequenceTask {
 public:
  // Of the process it runs in; all must outlive the object.
  struct Engine {
    LanguageModel& model;
    BrokerClient& broker;
    ModelStreams& streams;
    const WorkMeter& meter;
  };

  // The stream is open and has its key. `on_done` gets outcome, tokens, spans and the figures of
  // the reading itself.
  StreamReading(std::shared_ptr<OpenStream> stream, const Engine& engine,
                std::shared_ptr<const CancelFlag> cancelled, TraceLog trace,
                std::function<void(ReadDone)> on_done);

  DecodeItem row() override;
  void take_row(const Result<const float*>& logits, int64_t start_ns) override;
  void read_chunk(int64_t grid) override;
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override;
  void finish() override;
  OwnerWork work() const override { return ring_ ? OwnerWork::kFollowing : OwnerWork::kReading; }
  uint64_t request() const override { return stream_->request.request; }

 protected:
  Result<Turn> next_turn() override;

 private:
  Status check_wanted() const;
  Turn read_turn();
  void note_read();
  Status map_rows();
  Status begin_to_follow();
  Result<bool> follow();
  void take_over(int32_t token);
  int64_t size() const { return stream_->cache->size(); }
  int64_t known() const { return std::ssize(stream_->token_ids); }

  const std::shared_ptr<OpenStream> stream_;
  const Engine engine_;
  const std::shared_ptr<const CancelFlag> cancelled_;
  TraceLog trace_;
  const std::function<void(ReadDone)> on_done_;
  std::optional<TokenRingReader> ring_;  // once the text has been read
  const LayerGate gate_;
  std::optional<PromptReader> reader_;  // of the part of the text that is read now
  int64_t part_end_ = 0;                // in tokens of the stream
  int64_t begun_ns_ = 0;
  bool full_ = false;  // there is no room for tokens that were followed
  ProcessFigures figures_;
};

}  // namespace suture
