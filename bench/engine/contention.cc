#include "bench/engine/contention.h"

#include <algorithm>

namespace suture {
namespace {

Result<ContentionRound> run_round(RunnerProcess& a, RunnerProcess& b, const RunnerTask& task) {
  SUTURE_ASSIGN_OR_RETURN(const RunnerSeconds alone, a.run(task));
  SUTURE_RETURN_IF_ERROR(a.begin(task));
  SUTURE_RETURN_IF_ERROR(b.begin(task));
  SUTURE_ASSIGN_OR_RETURN(const RunnerSeconds first, a.finish());
  SUTURE_ASSIGN_OR_RETURN(const RunnerSeconds second, b.finish());
  return ContentionRound{alone.wall, first.wall, second.wall};
}

}  // namespace

ContentionFigures contention_figures(const std::vector<ContentionRound>& rounds, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  std::vector<double> alone;
  std::vector<double> together;
  std::vector<double> ratio;
  for (const ContentionRound& round : rounds) {
    alone.push_back(n / round.alone);
    // Until the slower one is done: the quicker one's last tokens do not count twice.
    together.push_back(2 * n / std::max(round.first, round.second));
    ratio.push_back(together.back() / alone.back());
  }
  ContentionFigures figures;
  figures.alone_tok_s = estimate(std::move(alone));
  figures.together_tok_s = estimate(std::move(together));
  figures.ratio = estimate(std::move(ratio));
  return figures;
}

Result<ContentionFigures> measure_contention(const RunnerCommand& command, const RunnerTask& task,
                                             int64_t n_rounds) {
  SUTURE_ASSIGN_OR_RETURN(auto a, RunnerProcess::start(command));
  SUTURE_ASSIGN_OR_RETURN(auto b, RunnerProcess::start(command));
  // Both read their history first, so that only tokens are generated while both run.
  for (RunnerProcess* runner : {&a, &b}) SUTURE_RETURN_IF_ERROR(runner->run(task));
  std::vector<ContentionRound> rounds;
  for (int64_t i = 0; i < n_rounds; ++i) {
    SUTURE_ASSIGN_OR_RETURN(rounds.emplace_back(), run_round(a, b, task));
  }
  ContentionFigures figures = contention_figures(rounds, task.generated_tokens);
  figures.cores = static_cast<int>(command.cores.size());
  figures.threads = command.threads;
  return figures;
}

}  // namespace suture
