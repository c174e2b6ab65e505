#include "launcher/topology_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace suture {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kTables = {"", "bus", "model", "fusion", "sampling"};

constexpr TopologyKey kKeys[] = {
    {"", "placement", KeyType::kText, R"("processes" or "in-process")", R"("processes")",
     "one process a model, or all in one process with the same results"},
    {"", "warm_up", KeyType::kBoolean, "true or false", "true",
     "make at start what the first request would have to make"},
    {"", "restarts", KeyType::kInteger, "0 to 1000", "5",
     "starts of a process after crashes in a row, before it is given up"},
    {"", "stitch_until", KeyType::kInteger, "1 to 4294967296", "24576",
     "own tokens and segments together, beyond which slaves are left out"},
    {"bus", "max_seq_len", KeyType::kInteger, "32 to 1048576", "8192",
     "tokens of the longest sequence: prompt, documents and answer"},
    {"bus", "max_sequences", KeyType::kInteger, "1 to 256", "4",
     "requests that run at once; every model reserves K/V for as many sequences"},
    {"bus", "max_queue", KeyType::kInteger, "0 to 1024", "16",
     "requests that may wait beyond max_sequences; more are refused"},
    {"bus", "hung_after", KeyType::kInteger, "1 to 86400", "30",
     "seconds without any sign of life, after which a process is ended"},
    {"model", "name", KeyType::kText, "1 to 63 letters, digits or _ - . :, not launcher",
     "required", "unique in the file; shown in tables, logs and errors"},
    {"model", "role", KeyType::kText, R"("master" or "slave")", "required",
     "the master answers, slaves lend it their K/V; there is one master"},
    {"model", "path", KeyType::kText, "up to 4096 bytes", "required",
     "a name from 'suture models list', a .gguf file or a checkpoint folder"},
    {"model", "device", KeyType::kText, R"("cpu")", R"("cpu")", "where the model runs"},
    {"model", "threads", KeyType::kInteger, "1 to 1024", "1", "threads of this process"},
    {"model", "system", KeyType::kText, "up to 65536 bytes",
     "the master's; for the master, the chat format's own",
     "system prompt in front of what the model reads"},
    {"model", "documents", KeyType::kTexts, "up to 64 files", "none",
     "UTF-8 texts that the model reads before any question, in this order; [] on a prefix slave: "
     "they come with each request"},
    {"model", "chat_format", KeyType::kText,
     "chatml, llama3, llama3.1, phi3, gemma, or a table of pieces", "recognised from the model",
     "how a conversation is laid out as text"},
    {"model", "rope_scaling", KeyType::kTable, "table: type, factor, original", "the file's own",
     "rope scaling in place of what the model file says"},
    {"model", "rope_length", KeyType::kInteger, "1 to 1073741824", "none",
     "fixes the frequencies of dynamic and longrope scaling to those of this length"},
    {"model", "rope_crossing", KeyType::kText, R"("keep" or "reread")", R"("keep")",
     "master only: keep rows as they are when the frequencies change, or read all again"},
    {"model", "fusion", KeyType::kTable, "table", "as below",
     "slaves only: how the slave's K/V join the master's"},
    {"model", "on_failure", KeyType::kText, R"("degrade" or "fail")", R"("degrade")",
     "slaves only: go on without a slave that died, or end the request with an error"},
    {"fusion", "mode", KeyType::kText, R"("concat", "project", "transfer", "text" or "auto")",
     R"("concat")",
     "the slave's K/V join the master's as they are, mapped by a projector, or stand in place of "
     "them; text: the slave answers, and the master reads that; auto: concat if the models fit, "
     "else project if there is a projector, else text"},
    {"fusion", "projector", KeyType::kText, "a file", "none",
     "maps the slave's K/V to the master's (suture fit); project needs one, transfer too unless "
     "both are the same model"},
    {"fusion", "force", KeyType::kBoolean, "true or false", "false",
     "use a projector that was fitted for other weights or has no evidence; every answer says so"},
    {"fusion", "apply", KeyType::kText, R"("writer" or "reader")", R"("writer")",
     "who maps: the slave's process, once for all requests, or the master's, for each of its own"},
    {"fusion", "sink", KeyType::kInteger, "0 to 1048576", "4",
     "transfer only: first tokens of the prompt that the master reads itself"},
    {"fusion", "reread", KeyType::kInteger, "1 to 1048576", "32",
     "transfer only: last tokens of the prompt that the master reads itself"},
    {"fusion", "position", KeyType::kText, R"("aligned" or "prefix")", R"("aligned")",
     "the slave reads the master's text, or other text placed before it"},
    {"fusion", "layer_map", KeyType::kText,
     "identity, stride:N, nearest, last-to-last, or a list of layers", "identity",
     "which layer of the slave meets which of the master"},
    {"fusion", "norm", KeyType::kText, R"("own" or "master")", R"("own")",
     "whose norm weights the slave uses"},
    {"fusion", "gain", KeyType::kNumber, "-inf to 100, or a list with one for each layer", "0",
     "added to the scores of the slave's tokens (natural logarithm)"},
    {"fusion", "lag", KeyType::kInteger, "0 to 1048576", "1",
     "aligned only: a token at p sees the slave's tokens up to p - lag"},
    {"fusion", "draft", KeyType::kInteger, "0 to 4096", "0",
     "most tokens that the slave goes on by itself before the master answers; they are part of it; "
     "mode text: at least 1, 256 unless given"},
    {"sampling", "temperature", KeyType::kNumber, "0 to 100", "0", "0 takes the best token always"},
    {"sampling", "top_k", KeyType::kInteger, "0 to 1024", "40",
     "draw from the k best tokens; 0 = from all"},
    {"sampling", "top_p", KeyType::kNumber, "above 0, up to 1", "1",
     "draw from the smallest set of tokens that has this probability"},
    {"sampling", "min_p", KeyType::kNumber, "0 to 1", "0",
     "leave out tokens with less than this share of the best one's probability; 0 is off"},
    {"sampling", "repetition_penalty", KeyType::kNumber, "above 0, up to 10", "1",
     "makes tokens of the window less likely; 1 is off"},
    {"sampling", "repetition_window", KeyType::kInteger, "-1 to 1048576", "64",
     "the last tokens that the penalty looks at; 0 = none, -1 = all"},
    {"sampling", "max_tokens", KeyType::kInteger, "1 to max_seq_len", "256",
     "longest answer in tokens"},
    {"sampling", "stop", KeyType::kTexts, "up to 16 texts", "none", "strings that end an answer"},
    {"sampling", "seed", KeyType::kInteger, "0 to 9223372036854775807", "0",
     "the same seed draws the same tokens"},
};

std::string_view type_name(KeyType type) {
  switch (type) {
    case KeyType::kInteger: return "integer";
    case KeyType::kNumber: return "number";
    case KeyType::kBoolean: return "boolean";
    case KeyType::kText: return "string";
    case KeyType::kTexts: return "array";
    case KeyType::kTable: return "object";
  }
  return "";
}

std::string_view heading(std::string_view table) {
  if (table.empty()) return "top level";
  if (table == "model") return "[[model]], one for each process";
  if (table == "fusion") return "fusion = { ... } in [[model]]";
  return table == "bus" ? "[bus]" : "[sampling]";
}

// The words in quotes, if the values are nothing but words.
std::vector<std::string> words(std::string_view values) {
  std::vector<std::string> found;
  if (!values.starts_with('"')) return found;
  for (size_t begin = values.find('"'); begin != std::string_view::npos;) {
    const size_t end = values.find('"', begin + 1);
    found.emplace_back(values.substr(begin + 1, end - begin - 1));
    begin = values.find('"', end + 1);
  }
  return found;
}

json describe(const TopologyKey& key) {
  json value = {{"description", fmt::format("{} ({})", key.meaning, key.values)}};
  // A list may stand for a number of each layer, or for a word that names a rule.
  const bool or_list = key.values.find("list") != std::string_view::npos;
  value["type"] = or_list ? json::array({type_name(key.type), "array"}) : json(type_name(key.type));
  const bool or_table =
      key.type == KeyType::kText && key.values.find("table") != std::string_view::npos;
  if (or_table) value["type"] = json::array({type_name(key.type), "object"});
  if (const auto choices = words(key.values); !choices.empty()) value["enum"] = choices;
  if (key.type == KeyType::kTexts) value["items"] = {{"type", "string"}};
  const json otherwise = json::parse(key.otherwise, nullptr, /*allow_exceptions=*/false);
  if (!otherwise.is_discarded()) value["default"] = otherwise;
  return value;
}

json object_of(std::string_view table) {
  json properties = json::object();
  json required = json::array();
  for (const TopologyKey& key : kKeys) {
    if (key.table != table) continue;
    properties[std::string(key.name)] = describe(key);
    if (key.otherwise == "required") required.push_back(key.name);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

}  // namespace

std::span<const TopologyKey> topology_keys() { return kKeys; }

std::string topology_schema_text() {
  std::string text;
  for (const std::string_view table : kTables) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", heading(table));
    for (const TopologyKey& key : kKeys)
      if (key.table == table)
        text += fmt::format("  {:<14} {}\n  {:<14} {}; default: {}\n", key.name, key.meaning, "",
                            key.values, key.otherwise);
  }
  return text;
}

nlohmann::json topology_schema_json() {
  json schema = object_of("");
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Suture topology";
  json model = object_of("model");
  const std::string about = model["properties"]["fusion"]["description"];
  model["properties"]["fusion"] = object_of("fusion");
  model["properties"]["fusion"]["description"] = about;
  schema["properties"]["bus"] = object_of("bus");
  schema["properties"]["sampling"] = object_of("sampling");
  schema["properties"]["model"] = {{"type", "array"}, {"items", std::move(model)}, {"minItems", 1}};
  schema["required"].push_back("model");
  return schema;
}

}  // namespace suture
