#include "launcher/attach_client.h"

#include <utility>

#include "launcher/answer_json.h"
#include "launcher/attach_socket.h"
#include "launcher/line_socket.h"

namespace suture {
namespace {

constexpr int kLookMs = 100;  // how often a waiting client looks whether it was interrupted

Result<LineSocket> connect(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, connect_to_launch(name));
  return LineSocket(std::move(fd));
}

// The line, which is an error if the launch says so.
Result<nlohmann::json> checked(nlohmann::json line) {
  if (!line.contains("error")) return line;
  SUTURE_ASSIGN_OR_RETURN(Error error, error_from_json(line["error"]));
  return tl::unexpected<Error>(std::move(error));
}

Result<nlohmann::json> exchange(LineSocket& socket, const nlohmann::json& message) {
  SUTURE_RETURN_IF_ERROR(socket.send(message));
  SUTURE_ASSIGN_OR_RETURN(auto line, socket.receive(-1));
  return checked(line.value_or(nlohmann::json()));
}

// Asks and waits for the answer; when cancelled, for what has come of it.
Result<Answer> ask_over(LineSocket& socket, const AskOptions& options,
                        const std::function<void(std::string_view)>& on_text,
                        const std::atomic<bool>& cancelled) {
  SUTURE_RETURN_IF_ERROR(socket.send(to_json(options)));
  bool told = false;
  while (true) {
    if (cancelled.load() && !std::exchange(told, true))
      SUTURE_RETURN_IF_ERROR(socket.send({{"cancel", true}}));
    SUTURE_ASSIGN_OR_RETURN(auto received, socket.receive(kLookMs));
    if (!received) continue;
    SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, checked(std::move(*received)));
    if (line.contains("answer")) return answer_from_json(line["answer"]);
    const auto piece = line.find("piece");
    if (piece == line.end() || !piece->is_string())
      return fail(ErrorCode::kCorrupt, "neither piece, answer nor error", "attach socket");
    on_text(piece->get<std::string>());
  }
}

class AttachedChat final : public ChatBackend {
 public:
  explicit AttachedChat(LineSocket socket) : socket_(std::move(socket)) {}

  Result<int64_t> restart(const std::vector<ChatTurn>& history) override {
    SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line,
                            exchange(socket_, {{"conversation", to_json(history)}}));
    const auto tokens = line.find("tokens");
    if (tokens == line.end() || !tokens->is_number_integer())
      return fail(ErrorCode::kCorrupt, "no number of tokens", "attach socket");
    begun_ = true;
    return tokens->get<int64_t>();
  }

  Result<Answer> ask(const AskOptions& options,
                     const std::function<void(std::string_view)>& on_text,
                     const std::atomic<bool>& cancelled) override {
    if (!begun_) SUTURE_RETURN_IF_ERROR(restart({}));
    return ask_over(socket_, options, on_text, cancelled);
  }

 private:
  LineSocket socket_;
  bool begun_ = false;
};

}  // namespace

Result<Attached> attach(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(LineSocket socket, connect(name));
  SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, exchange(socket, {{"hello", true}}));
  Attached attached;
  SUTURE_ASSIGN_OR_RETURN(
      attached.defaults,
      ask_options_from_json(line.contains("defaults") ? line["defaults"] : line));
  attached.ask = [name](const AskOptions& options, const auto& on_text,
                        const std::atomic<bool>& cancelled) -> Result<Answer> {
    SUTURE_ASSIGN_OR_RETURN(LineSocket connection, connect(name));
    return ask_over(connection, options, on_text, cancelled);
  };
  return attached;
}

Result<std::unique_ptr<ChatBackend>> attach_chat(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(LineSocket socket, connect(name));
  return std::make_unique<AttachedChat>(std::move(socket));
}

}  // namespace suture
