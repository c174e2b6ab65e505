#include "launcher/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <system_error>

#include "models/unicode.h"

namespace suture {
namespace {

constexpr int kHistoryLines = 1000;
constexpr size_t kLongestCharacter = 4;  // bytes of UTF-8

// The library converts and draws characters by the locale's rules.
void use_utf8_locale() {
  ::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") ::setlocale(LC_CTYPE, "C.UTF-8");
}

std::string to_utf8(std::wstring_view wide) {
  std::string text;
  for (const wchar_t c : wide) append_utf8(static_cast<uint32_t>(c), text);
  return text;
}

struct EditLineEnd {
  void operator()(EditLine* editor) const { ::el_end(editor); }
};
struct HistoryEnd {
  void operator()(HistoryW* history) const { ::history_wend(history); }
};

}  // namespace

struct LineEditor::State {
  int input_fd = -1;
  int wake_fd = -1;
  std::filesystem::path history_file;
  std::wstring prompt;
  bool interrupted = false;
  std::unique_ptr<HistoryW, HistoryEnd> history;
  std::unique_ptr<EditLine, EditLineEnd> editor;

  int read_character(wchar_t* character);
  bool wait_for_input();
  static State& of(EditLine* editor);
};

LineEditor::State& LineEditor::State::of(EditLine* editor) {
  void* state = nullptr;
  ::el_wget(editor, EL_CLIENTDATA, &state);
  return *static_cast<State*>(state);
}

// False when the line was interrupted.
bool LineEditor::State::wait_for_input() {
  pollfd polled[2] = {{input_fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  interrupted = (polled[1].revents & POLLIN) != 0;
  return !interrupted;
}

// One character of UTF-8: 1, 0 at the end, -1 when interrupted. Bytes that are none are U+FFFD.
int LineEditor::State::read_character(wchar_t* character) {
  std::string bytes;
  while (bytes.size() < kLongestCharacter) {
    char byte = 0;
    if (!wait_for_input()) return -1;
    const ssize_t got = ::read(input_fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    bytes.push_back(byte);
    const Utf8Character first = first_character(bytes);
    if (first.status == Utf8Status::kIncomplete) continue;
    *character = first.status == Utf8Status::kValid ? static_cast<wchar_t>(first.code_point)
                                                    : static_cast<wchar_t>(0xFFFD);
    break;
  }
  return 1;
}

LineEditor::LineEditor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<LineEditor>> LineEditor::create(std::FILE* input, std::FILE* output,
                                                       int wake_fd,
                                                       std::filesystem::path history_file) {
  use_utf8_locale();
  auto state = std::make_unique<State>();
  state->input_fd = ::fileno(input);
  state->wake_fd = wake_fd;
  state->history_file = std::move(history_file);
  state->history.reset(::history_winit());
  state->editor.reset(::el_init("suture", input, output, output));
  if (!state->history || !state->editor)
    return fail(ErrorCode::kIo, "the terminal cannot be set up for editing", "terminal",
                "set TERM to the terminal's type, or pipe the questions in");
  HistEventW event{};
  ::history_w(state->history.get(), &event, H_SETSIZE, kHistoryLines);
  ::history_w(state->history.get(), &event, H_SETUNIQUE, 1);
  if (!state->history_file.empty())
    ::history_w(state->history.get(), &event, H_LOAD, state->history_file.c_str());
  EditLine* editor = state->editor.get();
  ::el_wset(editor, EL_CLIENTDATA, state.get());
  ::el_wset(editor, EL_EDITOR, L"emacs");
  ::el_wset(editor, EL_HIST, ::history_w, state->history.get());
  const auto prompt = +[](EditLine* e) { return State::of(e).prompt.data(); };
  ::el_wset(editor, EL_PROMPT, prompt);
  const auto read_one = +[](EditLine* e, wchar_t* c) { return State::of(e).read_character(c); };
  ::el_wset(editor, EL_GETCFN, read_one);
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(state)));
}

LineEditor::~LineEditor() {
  if (state_->history_file.empty()) return;
  HistEventW event{};
  ::history_w(state_->history.get(), &event, H_SAVE, state_->history_file.c_str());
}

TypedLine LineEditor::read(const std::string& prompt) {
  state_->prompt.assign(prompt.begin(), prompt.end());
  state_->interrupted = false;
  // The library takes the keyboard over only behind the prompt: what a quick user types in between
  // the terminal would echo and edit, and then the library once more.
  ::el_wset(state_->editor.get(), EL_PREP_TERM, 1);
  int characters = 0;
  const wchar_t* line = ::el_wgets(state_->editor.get(), &characters);
  if (state_->interrupted) return {LineEnd::kInterrupted, {}};
  if (line == nullptr || characters <= 0) return {LineEnd::kEnd, {}};
  std::wstring_view text(line, static_cast<size_t>(characters));
  if (text.ends_with(L'\n')) text.remove_suffix(1);
  if (text.find_first_not_of(L" \t") != std::wstring_view::npos) {
    HistEventW event{};
    ::history_w(state_->history.get(), &event, H_ENTER, line);
  }
  return {LineEnd::kLine, to_utf8(text)};
}

std::filesystem::path chat_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/')
    folder = std::filesystem::path(state) / "suture";
  else if (home != nullptr && *home == '/')
    folder = std::filesystem::path(home) / ".local" / "state" / "suture";
  else
    return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {};
  ::chmod(folder.c_str(), 0700);
  return folder / "chat_history";
}

}  // namespace suture
