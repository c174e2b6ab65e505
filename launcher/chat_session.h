// What `suture chat` does with a message: a question is answered, a command obeyed.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"
#include "launcher/chat_backend.h"

namespace suture {

struct ChatOutput {
  std::function<void(std::string_view)> answer;  // text of answers as it comes
  std::function<void(std::string_view)> note;    // tables, messages, errors; whole lines
};

class ChatSession {
 public:
  // `ask` says how questions are answered; its text is the question's. `backend` must outlive it.
  ChatSession(ChatBackend& backend, AskOptions ask, ChatOutput output)
      : backend_(backend), ask_(std::move(ask)), output_(std::move(output)) {}

  // False when the user wants to leave. Setting `cancelled` ends an answer, which stays as far as
  // it has come. What goes wrong is said and ends nothing.
  bool handle(std::string_view message, const std::atomic<bool>& cancelled);

  const std::vector<ChatTurn>& turns() const { return turns_; }
  int64_t failures() const { return failures_; }
  // All questions with their answers or errors, and what the processes did.
  nlohmann::json to_json() const;

 private:
  bool obey(std::string_view command);
  void question(std::string_view text, const std::atomic<bool>& cancelled);
  void show_end(const Answer& answer);
  void save(const std::string& file);
  void load(const std::string& file);
  void restart(std::vector<ChatTurn> history, std::string_view done);
  void show_statistics();
  void report(const Error& error);

  ChatBackend& backend_;
  const AskOptions ask_;
  const ChatOutput output_;
  std::vector<ChatTurn> turns_;
  std::vector<ProcessFigures> processes_;  // of the whole session
  nlohmann::json log_ = nlohmann::json::array();
  int64_t questions_ = 0;
  int64_t failures_ = 0;
  double seconds_ = 0;  // answering
};

}  // namespace suture
