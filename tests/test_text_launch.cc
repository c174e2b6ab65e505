#include "tests/test_text_launch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string_view>
#include <thread>

#include "launcher/topology.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {

std::vector<std::byte> text_master() {
  return text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 4});
}

std::vector<std::byte> text_twin() {
  return text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 4, .seed = 3});
}

std::vector<std::byte> text_stranger() {
  return text_model({.vocabulary = make_chat_vocabulary({"t h", "th e", "i n", "o n"}),
                     .n_layers = 4,
                     .seed = 3,
                     .theta = 5e5f});
}

std::string text_topology(const TextLaunch& launch) {
  std::string text = fmt::format(
      "{}\n[bus]\nmax_seq_len = {}\nmax_sequences = 2\n[[model]]\nname = \"m\"\n"
      "role = \"master\"\npath = \"{}\"\nsystem = \"ab\"\n",
      launch.file_lines, launch.max_seq_len, launch.master.string());
  if (!launch.slave_lines.empty())
    text += fmt::format("[[model]]\nname = \"s\"\nrole = \"slave\"\npath = \"{}\"\n{}\n",
                        launch.slave.string(), launch.slave_lines);
  return text;
}

std::unique_ptr<Launch> start_text_launch(const TextLaunch& launch) {
  LaunchSpec spec = parse_topology(text_topology(launch), launch.folder / "t.toml").value();
  EXPECT_TRUE(resolve_models(spec));
  LaunchOptions options;
  options.program = SUTURE_BINARY;
  options.restarts = {.first_delay = std::chrono::milliseconds(1)};
  auto started = Launch::start(spec, options);
  EXPECT_TRUE(started.has_value()) << started.error().message();
  return std::move(*started);
}

Result<Answer> ask_while_slave_speaks(Launch& launch, const AskOptions& options,
                                      const std::function<void()>& act,
                                      const std::atomic<bool>& cancelled) {
  std::atomic<bool> answered = false;
  bool acted = false;
  std::thread actor([&] {
    while (!answered && !acted) {
      if (launch.snapshot().processes.at(1).slab.tokens_generated == 0) continue;
      act();
      acted = true;
    }
  });
  auto answer = launch.ask(
      options, [](std::string_view) {}, cancelled);
  answered = true;
  actor.join();
  EXPECT_TRUE(acted) << "the slave was silent too soon";
  return answer;
}

void kill_slave(const Launch& launch) { ::kill(launch.snapshot().processes.at(1).pid, SIGKILL); }

std::vector<std::vector<float>> logprobs(const Scoring& scoring) {
  std::vector<std::vector<float>> all;
  for (const ScoredContinuation& continuation : scoring.continuations) {
    std::vector<float>& values = all.emplace_back();
    for (const ScoredToken& token : continuation.tokens) values.push_back(token.logprob);
  }
  return all;
}

}  // namespace suture
