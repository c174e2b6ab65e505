#include "launcher/sampling_flags.h"

namespace suture {

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  constexpr const char* kGroup = "Sampling (unless given, as the topology's [sampling] says)";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kGroup);
  };
  add("-n,--max-tokens", flags.max_tokens, "Longest answer in tokens");
  add("--temperature", flags.temperature, "0 = always the best token");
  add("--top-k", flags.top_k, "Draw from the k best tokens, 0 = from all");
  add("--top-p", flags.top_p, "Draw from the best tokens that have this probability together");
  add("--min-p", flags.min_p,
      "Draw from tokens that have this share of the best one's probability, 0 = off");
  add("--repetition-penalty", flags.repetition_penalty,
      "Makes tokens less likely that the last text holds, 1 = off");
  add("--repetition-window", flags.repetition_window,
      "How many last tokens count for that, -1 = all");
  add("--seed", flags.seed, "The same seed draws the same tokens");
  add("--stop", flags.stop, "Text that ends an answer, not shown; may be given several times")
      ->allow_extra_args(false);
  command
      .add_flag("--ignore-eos", flags.ignore_eos,
                "The model's end tokens do not end an answer: it has --max-tokens, or a stop text")
      ->group(kGroup);
  command.add_option("--deadline", flags.deadline_seconds,
                     "Seconds after which an answer ends as far as it has come");
}

AskOptions apply(const SamplingFlags& flags, AskOptions base) {
  SamplingOptions& sampling = base.sampling;
  base.max_tokens = flags.max_tokens.value_or(base.max_tokens);
  sampling.temperature = flags.temperature.value_or(sampling.temperature);
  sampling.top_k = flags.top_k.value_or(sampling.top_k);
  sampling.top_p = flags.top_p.value_or(sampling.top_p);
  sampling.min_p = flags.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = flags.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.repetition_window = flags.repetition_window.value_or(sampling.repetition_window);
  sampling.seed = flags.seed.value_or(sampling.seed);
  base.deadline_seconds = flags.deadline_seconds.value_or(base.deadline_seconds);
  base.ignore_eos |= flags.ignore_eos;
  base.stop.insert(base.stop.end(), flags.stop.begin(), flags.stop.end());
  return base;
}

AskOptions ask_defaults(const LaunchSpec& spec) {
  return {.text = {}, .max_tokens = spec.max_tokens, .sampling = spec.sampling, .stop = spec.stop};
}

}  // namespace suture
