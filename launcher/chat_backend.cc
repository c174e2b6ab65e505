#include "launcher/chat_backend.h"

namespace suture {

LaunchChat::~LaunchChat() {
  if (conversation_ != 0) launch_.close_conversation(conversation_);
}

Result<int64_t> LaunchChat::restart(const std::vector<ChatTurn>& history) {
  SUTURE_ASSIGN_OR_RETURN(const OpenedConversation opened, launch_.open_conversation(history));
  if (conversation_ != 0) launch_.close_conversation(conversation_);
  conversation_ = opened.id;
  return opened.tokens;
}

Result<Answer> LaunchChat::ask(const AskOptions& options,
                               const std::function<void(std::string_view)>& on_text,
                               const std::atomic<bool>& cancelled) {
  if (conversation_ == 0) SUTURE_RETURN_IF_ERROR(restart({}));
  AskOptions asked = options;
  asked.conversation = conversation_;
  return launch_.ask(asked, on_text, cancelled);
}

}  // namespace suture
