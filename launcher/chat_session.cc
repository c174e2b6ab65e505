#include "launcher/chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "launcher/answer_json.h"
#include "launcher/answer_table.h"
#include "launcher/chat_transcript.h"
#include "launcher/command.h"
#include "launcher/nearest.h"
#include "launcher/text_file.h"

namespace suture {
namespace {

constexpr std::array<std::string_view, 7> kCommands = {"/help",  "/save", "/load", "/stats",
                                                       "/clear", "/quit", "/exit"};
constexpr std::string_view kHelp =
    "/save FILE   write the conversation as JSON\n"
    "/load FILE   go on with a conversation that was saved; it is read again\n"
    "/clear       begin a new conversation\n"
    "/stats       what was read, reused and generated so far\n"
    "/quit        leave (also Ctrl-D, or Ctrl-C twice at the prompt)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on with the next one; \"\"\" begins and\n"
    "ends a text of several lines. A question that begins with / is written with //.\n";

std::string without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// "~/x" as a shell would have it.
std::filesystem::path user_path(const std::string& file) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || !file.starts_with("~/")) return file;
  return std::filesystem::path(home) / file.substr(2);
}

}  // namespace

bool ChatSession::handle(std::string_view message, const std::atomic<bool>& cancelled) {
  if (const Status valid = check_utf8(message, "question"); !valid) {
    report(valid.error());
  } else if (message.starts_with("//")) {
    question(message.substr(1), cancelled);
  } else if (message.starts_with('/')) {
    return obey(message);
  } else if (!without_spaces(message).empty()) {
    question(message, cancelled);
  }
  return true;
}

bool ChatSession::obey(std::string_view command) {
  const size_t space = std::min(command.find(' '), command.size());
  const std::string_view name = command.substr(0, space);
  const std::string argument = without_spaces(command.substr(space));
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/help") {
    output_.note(kHelp);
  } else if (name == "/stats") {
    show_statistics();
  } else if (name == "/clear") {
    restart({}, "a new conversation begins");
  } else if (name == "/save" || name == "/load") {
    if (argument.empty())
      output_.note(fmt::format("{} needs the name of a file\n", name));
    else
      name == "/save" ? save(argument) : load(argument);
  } else {
    const auto near = nearest_word(name, kCommands);
    output_.note(fmt::format("{} is no command{}; /help lists them\n", name,
                             near ? fmt::format(", did you mean {}?", *near) : ""));
  }
  return true;
}

void ChatSession::question(std::string_view text, const std::atomic<bool>& cancelled) {
  ++questions_;
  AskOptions asked = ask_;
  asked.text = text;
  const Result<Answer> answer = backend_.ask(asked, output_.answer, cancelled);
  if (!answer) {
    log_.push_back({{"question", text}, {"error", error_json(answer.error())}});
    return report(answer.error());
  }
  output_.answer("\n");
  nlohmann::json entry = suture::to_json(*answer);
  entry["question"] = text;
  log_.push_back(std::move(entry));
  add_figures(answer->figures, processes_);
  seconds_ += answer->seconds;
  // What was stopped before it began has left no trace in the conversation.
  const bool said = !ended_early(answer->reason) || !answer->token_ids.empty();
  if (said) turns_.push_back({std::string(text), answer->text});
  show_end(*answer);
}

void ChatSession::show_end(const Answer& answer) {
  for (const std::string& note : answer_notes(answer)) output_.note(fmt::format("[{}]\n", note));
  if (answer.reason == FinishReason::kCancelled) output_.note("[stopped]\n");
  output_.note(chat_table(answer.figures));
}

void ChatSession::save(const std::string& file) {
  const auto path = user_path(file);
  const Status status = save_transcript(path, turns_);
  if (!status) return report(status.error());
  output_.note(fmt::format("{}: {} questions and answers saved\n", path.string(), turns_.size()));
}

void ChatSession::load(const std::string& file) {
  const auto path = user_path(file);
  auto turns = load_transcript(path);
  if (!turns) return report(turns.error());
  restart(std::move(*turns), path.string());
}

void ChatSession::restart(std::vector<ChatTurn> history, std::string_view done) {
  const Result<int64_t> tokens = backend_.restart(history);
  if (!tokens) return report(tokens.error());
  turns_ = std::move(history);
  if (turns_.empty()) return output_.note(fmt::format("{}\n", done));
  output_.note(
      fmt::format("{}: {} questions and answers, {} tokens that are read with the next question\n",
                  done, turns_.size(), *tokens));
}

void ChatSession::show_statistics() {
  output_.note(fmt::format("{} questions, {:.1f} s of answering; {} turns in this conversation\n",
                           questions_, seconds_, turns_.size()));
  if (!processes_.empty()) output_.note(answer_table(processes_));
}

void ChatSession::report(const Error& error) {
  ++failures_;
  output_.note(fmt::format("error: {}\n", error.message()));
}

nlohmann::json ChatSession::to_json() const {
  nlohmann::json json = {{"answers", log_},
                         {"seconds", seconds_},
                         {"processes", nlohmann::json::array()},
                         {"transcript", transcript_json(turns_)}};
  for (const ProcessFigures& figures : processes_)
    json["processes"].push_back(suture::to_json(figures));
  return json;
}

}  // namespace suture
