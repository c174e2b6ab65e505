// What clients ask, and how they change their minds; all of it follows from a seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "actors/launch.h"

namespace suture {

// One question, or the turns of a conversation.
struct LoadScript {
  bool conversation = false;
  std::vector<AskOptions> turns;
};

// Short and long questions, conversations, with and without chance; the same for every client.
std::vector<LoadScript> load_scripts(uint64_t seed);

// What a client does to its own question.
enum class Whim : uint8_t { kNone, kCancel, kDeadline, kHangUp };

struct Interference {
  Whim whim = Whim::kNone;
  size_t pieces = 0;            // kCancel, kHangUp: after so many pieces of text; 0 = at once
  double deadline_seconds = 0;  // kDeadline
};

// Most questions are left alone.
Interference draw_interference(std::mt19937_64& random);

}  // namespace suture
