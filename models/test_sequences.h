// Sequences of different kinds for tests that run several of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "models/language_model.h"

namespace suture {

// A tiny model by its folder, or "quantised", with the kernels of an instruction set.
std::unique_ptr<LanguageModel> load_for_isa(const std::string& name, Isa isa, int threads = 1);

// Ids that differ from seed to seed.
std::vector<int32_t> some_ids(const LanguageModel& model, int64_t n, int64_t seed);

// A sequence with a prompt of its own, already read; every second one has the slave's K/V beside
// its own, every third one as a prefix, at other positions and with rules of its own.
class TestSequence {
 public:
  static constexpr int64_t kCapacity = 128;     // entries
  static constexpr int64_t kSlaveEntries = 30;  // that the slave must have

  TestSequence(LanguageModel& model, int64_t number, KvCache& slave);
  TestSequence(const TestSequence&) = delete;

  // Lengths on both sides of the limits (32) of tiny models whose rope depends on it.
  int64_t n_prompt() const;
  // Generated token number `step`.
  DecodeItem item(int64_t step);
  KvCache& cache() { return *cache_; }

 private:
  ForeignSegment segment_of(KvCache& slave, int64_t end) const;
  ForeignSegment aligned(KvCache& slave) const;
  ForeignSegment prefix(KvCache& slave);

  LanguageModel& model_;
  int64_t number_;
  std::unique_ptr<KvCache> cache_;
  SequencePlan plan_;
  std::vector<int64_t> visible_from_;
};

}  // namespace suture
