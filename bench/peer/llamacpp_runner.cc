// One llama.cpp engine that does what it is told, line by line: the peer's side of compare_peer,
// which builds it against the library that it has installed.
//
//   llamacpp_runner MODEL THREADS CONTEXT
//
// After its first token it writes {"ready": true}. Then each line on standard input is one task,
// answered with {"seconds": S, "cpu_seconds": C} (C of all threads together) or {"error": "..."}:
//
//   prefill N      reads N tokens
//   decode H N     generates N tokens, H tokens being there already
#include <llama.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kShortPrompt = 8;  // tokens
constexpr int kBatch = 512;      // tokens of a prompt that are read at once

struct Seconds {
  double wall = 0;
  double cpu = 0;
};

Seconds now() {
  const auto of = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return {of(CLOCK_MONOTONIC), of(CLOCK_PROCESS_CPUTIME_ID)};
}

Seconds since(const Seconds& start) {
  const Seconds end = now();
  return {end.wall - start.wall, end.cpu - start.cpu};
}

class Engine {
 public:
  Engine(const std::string& path, int threads, int context_tokens) {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_backend_init();
    model_ = llama_model_load_from_file(path.c_str(), llama_model_default_params());
    if (model_ == nullptr) return;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(context_tokens);
    params.n_batch = params.n_ubatch = kBatch;
    params.n_threads = params.n_threads_batch = threads;
    context_ = llama_init_from_model(model_, params);
  }
  ~Engine() {
    if (context_ != nullptr) llama_free(context_);
    if (model_ != nullptr) llama_model_free(model_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool is_ready() const { return context_ != nullptr; }

  // Nothing after an error.
  std::optional<Seconds> prefill(int n_tokens) {
    set_history(0);
    const Seconds start = now();
    if (!read(n_tokens)) return std::nullopt;
    return since(start);
  }

  std::optional<Seconds> decode(int history, int n_tokens) {
    set_history(history);
    if (!read(history - length_)) return std::nullopt;
    const Seconds start = now();
    for (int i = 0; i < n_tokens; ++i)
      if (!run({token(length_)})) return std::nullopt;
    return since(start);
  }

 private:
  llama_token token(int position) const {
    return (position * 7919) % (llama_vocab_n_tokens(llama_model_get_vocab(model_)) / 2) + 10;
  }

  // Keeps at most the first `length` tokens.
  void set_history(int length) {
    if (length >= length_) return;
    llama_memory_seq_rm(llama_get_memory(context_), 0, length, -1);
    length_ = length;
  }

  bool read(int n_tokens) {
    while (n_tokens > 0) {
      std::vector<llama_token> ids(static_cast<size_t>(std::min(n_tokens, kBatch)));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = token(length_ + static_cast<int>(i));
      n_tokens -= static_cast<int>(ids.size());
      if (!run(std::move(ids))) return false;
    }
    return true;
  }

  bool run(std::vector<llama_token> ids) {
    const auto n = static_cast<int32_t>(ids.size());
    if (llama_decode(context_, llama_batch_get_one(ids.data(), n)) != 0) return false;
    llama_synchronize(context_);
    length_ += n;
    return true;
  }

  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  int length_ = 0;  // tokens in the cache
};

std::optional<Seconds> run_task(Engine& engine, const std::string& line) {
  std::istringstream words(line);
  std::string task;
  int first = 0;
  int second = 0;
  words >> task >> first;
  if (task == "prefill" && first > 0) return engine.prefill(first);
  words >> second;
  if (task == "decode" && first > 0 && second > 0) return engine.decode(first, second);
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // also ends a runner that stands still
  if (argc != 4) {
    std::fprintf(stderr, "usage: llamacpp_runner MODEL THREADS CONTEXT\n");
    return 2;
  }
  Engine engine(argv[1], std::stoi(argv[2]), std::stoi(argv[3]));
  if (!engine.is_ready() || !engine.decode(kShortPrompt, 1)) {
    std::puts("{\"error\": \"llama.cpp cannot run the model\"}");
    return 1;
  }
  std::puts("{\"ready\": true}");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (const auto seconds = run_task(engine, line))
      std::printf("{\"seconds\": %.9f, \"cpu_seconds\": %.9f}\n", seconds->wall, seconds->cpu);
    else
      std::puts("{\"error\": \"llama.cpp failed\"}");
    std::fflush(stdout);
  }
}
