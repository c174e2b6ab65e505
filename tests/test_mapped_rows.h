// What processes with a projector must come to, computed in one process: the slave's rows, mapped,
// and the master's answer to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fusion/projection.h"
#include "fusion/projector.h"
#include "models/first_layer.h"
#include "models/language_model.h"
#include "models/tokenizer.h"

namespace suture {

std::unique_ptr<LanguageModel> load_model(const std::filesystem::path& path);
std::unique_ptr<Tokenizer> tokenizer_of(const LanguageModel& model);

// Files of a master, a slave that differs from it in all but its vocabulary, one that differs in
// that too, and one of the master's shape whose weights find no end.
std::vector<std::byte> mapping_master();
std::vector<std::byte> mapped_slave();
std::vector<std::byte> mapped_stranger();
std::vector<std::byte> mapping_talker();

// With random numbers, for a master of 4 layers and a slave of 3; written to `path`.
Projector make_random_projector(const std::filesystem::path& slave,
                                const std::filesystem::path& master,
                                const std::filesystem::path& path);

// A projector with what applies it, in the master's process.
class AppliedProjector {
 public:
  AppliedProjector(const Projector& projector, LanguageModel& master, int64_t max_rows);

  // Appends rows of the slave's cache at these entries as rows of these tokens of the master's.
  void map(KvCache& read, std::span<const int32_t> entries, std::span<const int32_t> ids,
           MatmulPath path, KvCache& mapped);

 private:
  std::unique_ptr<FirstLayer> first_layer_;
  std::unique_ptr<Projection> projection_;
};

// A slave's rows of the master's tokens, as the master meets them: mapped, or as they are without a
// projector.
class MappedRows {
 public:
  // Reads `ids`, a text that ends with them. Up to `capacity` tokens may follow it.
  MappedRows(const std::filesystem::path& slave, LanguageModel& master,
             const std::vector<int32_t>& ids, const Projector* projector, int64_t capacity = 0);
  // Of the same vocabulary: the next token, generated.
  void follow(int32_t id);

  // Entries [begin, end) at the positions of their tokens; layers, and nothing else, are set up.
  ForeignSegment segment(int64_t begin, int64_t end);

 private:
  LanguageModel& master_;
  std::unique_ptr<LanguageModel> slave_;
  std::unique_ptr<KvCache> read_;
  std::unique_ptr<KvCache> mapped_;
  std::unique_ptr<AppliedProjector> projector_;
};

// ln p of the last `scored` tokens, each given what is before it. The first `alone` tokens are read
// before there is a slave, as a context is.
std::vector<float> logprobs_of(LanguageModel& master, const SequencePlan& plan,
                               const std::vector<int32_t>& ids, int64_t scored, int64_t alone = 0);
// Reads what is not in the cache yet of the master's own tokens; gives the last row's logits.
const float* read_alone(LanguageModel& master, KvCache& cache, std::span<const int32_t> ids);

// The master's own best tokens after a text, of which the first `alone` are read before there is a
// slave. `plan_for` says what a row at an entry of its cache meets; `rows` follow the answer.
std::vector<int32_t> answer_beside(LanguageModel& master, MappedRows& rows,
                                   const std::vector<int32_t>& text, int64_t alone, int64_t tokens,
                                   const std::function<SequencePlan(int64_t entry)>& plan_for);

// The token with the highest of these logits.
int32_t best_token(LanguageModel& model, const float* logits);

}  // namespace suture
