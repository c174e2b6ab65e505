#include "models/test_sequences.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "models/test_models.h"
#include "models/test_quantised_model.h"

namespace suture {

std::unique_ptr<LanguageModel> load_for_isa(const std::string& name, Isa isa, int threads) {
  ::setenv("SUTURE_ISA", std::string(isa_name(isa)).c_str(), 1);
  std::unique_ptr<LanguageModel> model;
  if (name == "quantised") {
    const TemporaryFile file(quantised_llama());
    model = LanguageModel::load(file.path(), {.threads = threads}).value();
  } else {
    model = load_tiny(name, threads);
  }
  ::unsetenv("SUTURE_ISA");
  return model;
}

std::vector<int32_t> some_ids(const LanguageModel& model, int64_t n, int64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>((i * 37 + seed * 11 + 5) % model.config().vocab_size));
  return ids;
}

TestSequence::TestSequence(LanguageModel& model, int64_t number, KvCache& slave)
    : model_(model), number_(number), cache_(model.make_cache(kCapacity).value()) {
  if (number % 2 == 1) plan_.after.push_back(aligned(slave));
  if (number % 3 == 2) {
    plan_.own = {{0, 0}, {2, 20}};
    plan_.before.push_back(prefix(slave));
  }
  PrefillArgs args;
  const auto ids = some_ids(model, n_prompt(), number);
  args.token_ids = ids;
  args.cache = cache_.get();
  args.plan = &plan_;
  EXPECT_TRUE(model.prefill(args));
}

int64_t TestSequence::n_prompt() const {
  return std::array{1, 33, 5, 31, 48, 12, 40, 2}[static_cast<size_t>(number_ % 8)];
}

DecodeItem TestSequence::item(int64_t step) {
  return {some_ids(model_, step + 1, number_ + 100).back(), cache_.get(), &plan_};
}

ForeignSegment TestSequence::segment_of(KvCache& slave, int64_t end) const {
  ForeignSegment segment;
  for (int32_t layer = 0; layer < slave.shape().n_layers; ++layer)
    segment.layers.push_back(slave.layer_view(layer));
  segment.end = end;
  const ModelConfig& config = model_.config();
  segment.log_gain.assign(
      static_cast<size_t>(config.n_layers) * static_cast<size_t>(config.n_heads), -0.5f);
  segment.log_gain[1] = -std::numeric_limits<float>::infinity();
  return segment;
}

ForeignSegment TestSequence::aligned(KvCache& slave) const {
  ForeignSegment segment = segment_of(slave, kSlaveEntries);
  segment.visibility = Visibility::kUpTo;
  segment.lag = 1 + number_;
  return segment;
}

ForeignSegment TestSequence::prefix(KvCache& slave) {
  for (int64_t entry = 0; entry < 20; ++entry) visible_from_.push_back(entry / 2 + number_);
  ForeignSegment segment = segment_of(slave, 20);
  segment.visible_from = visible_from_;
  segment.position_offset = 2;
  segment.rotation_shift = 2 + number_;
  return segment;
}

}  // namespace suture
