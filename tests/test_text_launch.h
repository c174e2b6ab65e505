// Launches of small models that read and write text (models/test_text_model.h), in processes of
// their own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch.h"

namespace suture {

// Files of a master, a model that differs from it in its weights, and one of another vocabulary and
// rotation too.
std::vector<std::byte> text_master();
std::vector<std::byte> text_twin();
std::vector<std::byte> text_stranger();

struct TextLaunch {
  std::filesystem::path folder;  // of the topology
  std::filesystem::path master;
  std::filesystem::path slave = {};
  std::string slave_lines = {};  // of the slave's table; empty = there is no slave
  std::string file_lines = {};   // before all tables
  int64_t max_seq_len = 256;
};

// The topology of a master "m" with the system text "ab", and a slave "s".
std::string text_topology(const TextLaunch& launch);
std::unique_ptr<Launch> start_text_launch(const TextLaunch& launch);

// Asks, and does something as soon as the slave generates.
Result<Answer> ask_while_slave_speaks(Launch& launch, const AskOptions& options,
                                      const std::function<void()>& act,
                                      const std::atomic<bool>& cancelled = false);
void kill_slave(const Launch& launch);

// Log-probabilities of the tokens of each continuation.
std::vector<std::vector<float>> logprobs(const Scoring& scoring);

}  // namespace suture
