#include "bench/load/workload.h"

#include <array>

namespace suture {
namespace {

constexpr std::array kSubjects = {"The ferry",     "The harbour master",    "A fisherman",
                                  "The old pilot", "The lighthouse keeper", "A passenger"};
constexpr std::array kDeeds = {"counted", "repaired", "painted", "remembered", "sold", "carried"};
constexpr std::array kThings = {"twelve lanterns",        "the northern buoy", "a chart of the bay",
                                "seven crates of apples", "the spare anchor",  "two letters"};
constexpr std::array kTimes = {"before dawn",       "during the storm",
                               "on a quiet Sunday", "after the market closed",
                               "in late October",   "at high tide"};

template <size_t kCount>
const char* pick(const std::array<const char*, kCount>& words, std::mt19937_64& random) {
  return words[random() % kCount];
}

std::string story(size_t sentences, std::mt19937_64& random) {
  std::string text;
  for (size_t i = 0; i < sentences; ++i) {
    text += pick(kSubjects, random);
    for (const char* word : {pick(kDeeds, random), pick(kThings, random), pick(kTimes, random)}) {
      text += ' ';
      text += word;
    }
    text += ". ";
  }
  return text;
}

AskOptions question(size_t sentences, int64_t max_tokens, bool by_chance, std::mt19937_64& random) {
  AskOptions asked;
  asked.text = story(sentences, random) + "What did " + pick(kSubjects, random) + " do " +
               pick(kTimes, random) + "?";
  asked.max_tokens = max_tokens;
  asked.sampling.temperature = by_chance ? 0.8f : 0.0f;
  asked.sampling.seed = random();
  return asked;
}

}  // namespace

std::vector<LoadScript> load_scripts(uint64_t seed) {
  constexpr std::array<size_t, 6> kSentences = {0, 1, 4, 8, 12, 20};
  constexpr std::array<int64_t, 4> kMaxTokens = {4, 12, 24, 32};
  std::mt19937_64 random(seed);
  std::vector<LoadScript> scripts;
  for (size_t i = 0; i < kSentences.size(); ++i)
    scripts.push_back({false, {question(kSentences[i], kMaxTokens[i % 4], i % 2 == 1, random)}});
  for (size_t i = 0; i < 4; ++i) {
    LoadScript script{true, {}};
    for (size_t turn = 0; turn < 2 + i % 2; ++turn)
      script.turns.push_back(
          question(kSentences[(i + turn) % 4], kMaxTokens[turn % 4], i % 2 == 1, random));
    scripts.push_back(std::move(script));
  }
  return scripts;
}

Interference draw_interference(std::mt19937_64& random) {
  Interference drawn;
  const uint64_t percent = random() % 100;
  if (percent < 10) drawn.whim = Whim::kCancel;
  if (percent >= 10 && percent < 20) drawn.whim = Whim::kDeadline;
  if (percent >= 20 && percent < 28) drawn.whim = Whim::kHangUp;
  drawn.pieces = random() % 8;
  if (drawn.whim == Whim::kDeadline)
    drawn.deadline_seconds = 0.05 * static_cast<double>(1 + random() % 60);
  return drawn;
}

}  // namespace suture
