#include "launcher/chat_transcript.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"
#include "launcher/answer_json.h"
#include "launcher/text_file.h"

namespace suture {
namespace {

constexpr int kVersion = 1;

Result<std::string> text_field(const nlohmann::json& turn, const char* key,
                               const std::string& where) {
  const auto field = turn.is_object() ? turn.find(key) : turn.end();
  if (!turn.is_object() || field == turn.end() || !field->is_string())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected an object with the text \"{}\"", key), where);
  return field->get<std::string>();
}

Status write_whole(int fd, std::string_view text, const std::string& where) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("cannot write", errno, where);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

nlohmann::json transcript_json(const std::vector<ChatTurn>& turns) {
  return {{"suture_chat", kVersion}, {"turns", to_json(turns)}};
}

Status save_transcript(const std::filesystem::path& path, const std::vector<ChatTurn>& turns) {
  const std::string text = transcript_json(turns).dump(2) + "\n";
  std::string temporary = path.string() + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return fail_errno("cannot create", errno, path.string());
  Status status = write_whole(fd.get(), text, path.string());
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = fail_errno("cannot replace", errno, path.string());
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Result<std::vector<ChatTurn>> load_transcript(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxTranscriptBytes));
  return parse_transcript(text, path.string());
}

Result<std::vector<ChatTurn>> parse_transcript(std::string_view text, const std::string& where) {
  const auto refuse = [&](std::string what) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), where,
                "/save writes files that /load reads");
  };
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return refuse("is not JSON");
  if (!json.is_object() || !json.contains("suture_chat")) return refuse("is not a saved chat");
  const nlohmann::json& version = json.at("suture_chat");
  if (version != kVersion)
    return refuse(fmt::format("suture_chat is {}, expected {}", version.dump(), kVersion));
  const auto turns = json.find("turns");
  if (turns == json.end() || !turns->is_array()) return refuse("turns: expected an array");
  std::vector<ChatTurn> result;
  for (size_t i = 0; i < turns->size(); ++i) {
    const std::string item = fmt::format("{}: turns[{}]", where, i);
    ChatTurn turn;
    SUTURE_ASSIGN_OR_RETURN(turn.question, text_field((*turns)[i], "question", item));
    SUTURE_ASSIGN_OR_RETURN(turn.answer, text_field((*turns)[i], "answer", item));
    result.push_back(std::move(turn));
  }
  return result;
}

}  // namespace suture
