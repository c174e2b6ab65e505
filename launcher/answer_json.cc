#include "launcher/answer_json.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "launcher/attention_json.h"

namespace suture {
namespace {

constexpr std::string_view kWhere = "attach message";

// Runs `read` on the JSON; what it throws becomes an error that names the field.
template <typename T, typename Read>
Result<T> checked(const nlohmann::json& json, Read read) {
  try {
    T value;
    read(json, value);
    return value;
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt, error.what(), std::string(kWhere),
                "both ends must be the same version of suture");
  }
}

// Only what the field can hold: anything else would silently become another number.
template <std::integral T>
void read_number(const nlohmann::json& json, const char* key, T& value) {
  const nlohmann::json& number = json.at(key);
  const bool fits = number.is_number_unsigned()
                        ? std::in_range<T>(number.get<uint64_t>())
                        : number.is_number_integer() && std::in_range<T>(number.get<int64_t>());
  if (!fits) throw std::out_of_range(fmt::format("'{}' is no whole number in its range", key));
  number.get_to(value);
}

void read_number(const nlohmann::json& json, const char* key, float& value) {
  const nlohmann::json& number = json.at(key);
  if (!number.is_number() || std::abs(number.get<double>()) > std::numeric_limits<float>::max())
    throw std::out_of_range(fmt::format("'{}' is no number in its range", key));
  number.get_to(value);
}

void read_figures(const nlohmann::json& json, ProcessFigures& figures) {
  json.at("name").get_to(figures.name);
  json.at("role").get_to(figures.role);
  json.at("prompt_tokens").get_to(figures.prompt_tokens);
  json.at("reused_tokens").get_to(figures.reused_tokens);
  json.at("prefill_s").get_to(figures.prefill_seconds);
  json.at("projection_s").get_to(figures.projection_seconds);
  json.at("decoded_tokens").get_to(figures.decoded_tokens);
  json.at("decode_s").get_to(figures.decode_seconds);
  json.at("bus_waits").get_to(figures.bus_waits);
  json.at("bus_wait_s").get_to(figures.bus_wait_seconds);
  json.at("kv_bytes_published").get_to(figures.kv_bytes_published);
  json.at("kv_bytes_read").get_to(figures.kv_bytes_read);
  json.at("resident_bytes").get_to(figures.resident_bytes);
  json.at("lazily_built").get_to(figures.lazily_built);
}

FinishReason reason_named(std::string_view name) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kDeadline})
    if (finish_reason_name(reason) == name) return reason;
  return FinishReason::kError;
}

ErrorCode code_named(std::string_view name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kBusy); ++code)
    if (error_code_name(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  return ErrorCode::kIo;
}

}  // namespace

nlohmann::json to_json(const ProcessFigures& figures) {
  return {{"name", figures.name},
          {"role", figures.role},
          {"prompt_tokens", figures.prompt_tokens},
          {"reused_tokens", figures.reused_tokens},
          {"prefill_s", figures.prefill_seconds},
          {"projection_s", figures.projection_seconds},
          {"decoded_tokens", figures.decoded_tokens},
          {"decode_s", figures.decode_seconds},
          {"bus_waits", figures.bus_waits},
          {"bus_wait_s", figures.bus_wait_seconds},
          {"kv_bytes_published", figures.kv_bytes_published},
          {"kv_bytes_read", figures.kv_bytes_read},
          {"resident_bytes", figures.resident_bytes},
          {"lazily_built", figures.lazily_built}};
}

nlohmann::json to_json(const Answer& answer) {
  nlohmann::json json = {{"text", answer.text},
                         {"token_ids", answer.token_ids},
                         {"finish_reason", finish_reason_name(answer.reason)},
                         {"prompt_tokens", answer.prompt_tokens},
                         {"waited_s", answer.waited_seconds},
                         {"first_token_s", answer.first_token_seconds},
                         {"seconds", answer.seconds},
                         {"processes", nlohmann::json::array()},
                         {"degraded", nlohmann::json::array()},
                         {"replayed", nlohmann::json::array()}};
  for (const ProcessFigures& figures : answer.figures)
    json["processes"].push_back(to_json(figures));
  for (const Degraded& lost : answer.degraded)
    json["degraded"].push_back({{"slave", lost.slave}, {"token", lost.token}, {"why", lost.why}});
  for (const Replayed& replay : answer.replayed)
    json["replayed"].push_back({{"token", replay.token}, {"why", replay.why}});
  if (!answer.forced.empty()) json["forced"] = answer.forced;
  for (const DraftedText& draft : answer.drafts)
    json["drafts"].push_back({{"slave", draft.slave},
                              {"text", draft.text},
                              {"token_ids", draft.token_ids},
                              {"seconds", draft.seconds},
                              {"handed_over", draft.handed_over}});
  for (const TraceSpan& span : answer.spans)
    json["spans"].push_back({{"process", span.process},
                             {"name", span.name},
                             {"start_ns", span.start_ns},
                             {"duration_ns", span.duration_ns}});
  if (!answer.attention.empty()) json["attention"] = to_json(answer.attention);
  return json;
}

nlohmann::json to_json(const AskOptions& options) {
  nlohmann::json json = {{"text", options.text},
                         {"max_tokens", options.max_tokens},
                         {"temperature", options.sampling.temperature},
                         {"top_k", options.sampling.top_k},
                         {"top_p", options.sampling.top_p},
                         {"min_p", options.sampling.min_p},
                         {"repetition_penalty", options.sampling.repetition_penalty},
                         {"repetition_window", options.sampling.repetition_window},
                         {"seed", options.sampling.seed},
                         {"stop", options.stop}};
  if (options.deadline_seconds != 0) json["deadline_s"] = options.deadline_seconds;
  if (options.ignore_eos) json["ignore_eos"] = true;
  if (options.attention.wanted)
    json["attention"] = {{"keywords", options.attention.keywords},
                         {"must_occur", options.attention.must_occur}};
  for (const SlaveDocuments& documents : options.slave_texts.documents)
    json["documents"].push_back({{"slave", documents.slave}, {"texts", documents.texts}});
  return json;
}

nlohmann::json to_json(const std::vector<ChatTurn>& turns) {
  nlohmann::json json = nlohmann::json::array();
  for (const ChatTurn& turn : turns)
    json.push_back({{"question", turn.question}, {"answer", turn.answer}});
  return json;
}

Result<Answer> answer_from_json(const nlohmann::json& source) {
  return checked<Answer>(source, [](const nlohmann::json& json, Answer& answer) {
    json.at("text").get_to(answer.text);
    json.at("token_ids").get_to(answer.token_ids);
    answer.reason = reason_named(json.at("finish_reason").get<std::string>());
    json.at("prompt_tokens").get_to(answer.prompt_tokens);
    answer.waited_seconds = json.value("waited_s", 0.0);
    json.at("first_token_s").get_to(answer.first_token_seconds);
    json.at("seconds").get_to(answer.seconds);
    for (const nlohmann::json& process : json.at("processes"))
      read_figures(process, answer.figures.emplace_back());
    for (const nlohmann::json& lost : json.at("degraded"))
      answer.degraded.push_back({lost.at("slave").get<std::string>(),
                                 lost.at("token").get<int64_t>(),
                                 lost.at("why").get<std::string>()});
    for (const nlohmann::json& replay : json.at("replayed"))
      answer.replayed.push_back(
          {replay.at("token").get<int64_t>(), replay.at("why").get<std::string>()});
    if (json.contains("attention")) answer.attention = attention_from_json(json.at("attention"));
    if (json.contains("forced")) json.at("forced").get_to(answer.forced);
    if (json.contains("drafts"))
      for (const nlohmann::json& draft : json.at("drafts"))
        answer.drafts.push_back(
            {draft.at("slave").get<std::string>(),
             draft.at("token_ids").get<std::vector<int32_t>>(), draft.at("text").get<std::string>(),
             draft.at("seconds").get<double>(), draft.value("handed_over", false)});
    if (!json.contains("spans")) return;
    for (const nlohmann::json& span : json.at("spans"))
      answer.spans.push_back(
          {span.at("process").get<std::string>(), span.at("name").get<std::string>(),
           span.at("start_ns").get<int64_t>(), span.at("duration_ns").get<int64_t>()});
  });
}

Result<AskOptions> ask_options_from_json(const nlohmann::json& source) {
  return checked<AskOptions>(source, [](const nlohmann::json& json, AskOptions& options) {
    json.at("text").get_to(options.text);
    read_number(json, "max_tokens", options.max_tokens);
    read_number(json, "temperature", options.sampling.temperature);
    read_number(json, "top_k", options.sampling.top_k);
    read_number(json, "top_p", options.sampling.top_p);
    read_number(json, "min_p", options.sampling.min_p);
    read_number(json, "repetition_penalty", options.sampling.repetition_penalty);
    read_number(json, "repetition_window", options.sampling.repetition_window);
    read_number(json, "seed", options.sampling.seed);
    json.at("stop").get_to(options.stop);
    options.deadline_seconds = json.value("deadline_s", 0.0);
    options.ignore_eos = json.value("ignore_eos", false);
    if (json.contains("attention")) {
      options.attention.wanted = true;
      json.at("attention").at("keywords").get_to(options.attention.keywords);
      json.at("attention").at("must_occur").get_to(options.attention.must_occur);
    }
    if (!json.contains("documents")) return;
    for (const nlohmann::json& documents : json.at("documents"))
      options.slave_texts.documents.push_back(
          {documents.at("slave").get<std::string>(),
           documents.at("texts").get<std::vector<std::string>>()});
  });
}

Result<std::vector<ChatTurn>> chat_turns_from_json(const nlohmann::json& source) {
  return checked<std::vector<ChatTurn>>(
      source, [](const nlohmann::json& json, std::vector<ChatTurn>& turns) {
        for (const nlohmann::json& turn : json)
          turns.push_back(
              {turn.at("question").get<std::string>(), turn.at("answer").get<std::string>()});
      });
}

Result<Error> error_from_json(const nlohmann::json& source) {
  return checked<Error>(source, [](const nlohmann::json& json, Error& error) {
    error.code = code_named(json.at("code").get<std::string>());
    json.at("what").get_to(error.what);
    json.at("where").get_to(error.where);
    json.at("remedy").get_to(error.remedy);
    error.retry_after_seconds = json.value("retry_after_s", 0.0);
  });
}

}  // namespace suture
