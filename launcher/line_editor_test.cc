#include "launcher/line_editor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <thread>

#include "base/test_folder.h"
#include "base/unique_fd.h"

namespace suture {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, FileCloser>;

// A terminal whose keyboard the test plays.
class LineEditorTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TERM", "xterm", 1);
    keyboard_.reset(::posix_openpt(O_RDWR | O_NOCTTY));
    ASSERT_TRUE(keyboard_.valid());
    ASSERT_EQ(::grantpt(keyboard_.get()), 0);
    ASSERT_EQ(::unlockpt(keyboard_.get()), 0);
    const std::string name = ::ptsname(keyboard_.get());
    input_.reset(std::fopen(name.c_str(), "r"));
    output_.reset(std::fopen(name.c_str(), "w"));
    ASSERT_TRUE(input_ && output_);
    // What is typed before the editor reads arrives as it is.
    ASSERT_EQ(::tcgetattr(::fileno(input_.get()), &cooked_), 0);
    termios raw = cooked_;
    ::cfmakeraw(&raw);
    ASSERT_EQ(::tcsetattr(::fileno(input_.get()), TCSANOW, &raw), 0);
  }

  std::unique_ptr<LineEditor> editor() {
    auto editor = LineEditor::create(input_.get(), output_.get(), wake_.get(), history_file());
    EXPECT_TRUE(editor.has_value()) << editor.error().message();
    return std::move(*editor);
  }
  std::filesystem::path history_file() const { return folder_.path() / "history"; }
  void type(const std::string& keys) const {
    EXPECT_EQ(::write(keyboard_.get(), keys.data(), keys.size()), std::ssize(keys));
  }

  // Until the editor has taken the keyboard over; false if it has not within 20 s.
  bool wait_for_editor() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    termios mode{};
    do {
      std::this_thread::yield();
      EXPECT_EQ(::tcgetattr(keyboard_.get(), &mode), 0);
    } while ((mode.c_lflag & ICANON) != 0 && std::chrono::steady_clock::now() < end);
    return (mode.c_lflag & ICANON) == 0;
  }

  TestFolder folder_;
  UniqueFd keyboard_;
  UniqueFd wake_{::eventfd(0, EFD_CLOEXEC)};
  termios cooked_{};
  FilePtr input_;
  FilePtr output_;
};

TEST_F(LineEditorTest, LinesAreEditedAsTheyAreTyped) {
  const auto editing = editor();
  type("hello\n");
  TypedLine line = editing->read("> ");
  EXPECT_EQ(line.end, LineEnd::kLine);
  EXPECT_EQ(line.text, "hello");
  type(
      "Grx\x7f\xc3\xbc\xc3\x9f"
      "e, 苏州\x01> \n");  // backspace; Ctrl-A, to the beginning
  EXPECT_EQ(editing->read("> ").text, "> Grüße, 苏州");
  type("\n");
  line = editing->read("> ");
  EXPECT_EQ(line.end, LineEnd::kLine);
  EXPECT_EQ(line.text, "");
}

TEST_F(LineEditorTest, HistoryStaysForTheNextSessionAndForThisUserAlone) {
  {
    const auto editing = editor();
    type("first line\nsecond: ä\n");
    EXPECT_EQ(editing->read("> ").text, "first line");
    EXPECT_EQ(editing->read("> ").text, "second: ä");
  }
  struct stat info {};
  ASSERT_EQ(::stat(history_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto editing = editor();
  type("\x10\n");  // Ctrl-P, the line before
  EXPECT_EQ(editing->read("> ").text, "second: ä");
  type("\x10\x10!\n");
  EXPECT_EQ(editing->read("> ").text, "first line!");
}

TEST_F(LineEditorTest, ADamagedHistoryIsNoHistory) {
  constexpr std::string_view kDamaged = "_HiStOrY_V2_\n\\777\\M-^?\xff\xfe\\\n\x01x\n";
  folder_.write("history", std::string(kDamaged));
  const auto editing = editor();
  type("still here\n");
  EXPECT_EQ(editing->read("> ").text, "still here");
}

TEST_F(LineEditorTest, CtrlDAtTheBeginningOfALineEnds) {
  const auto editing = editor();
  // While the terminal still edits lines itself, Ctrl-D is no character.
  std::jthread user([this] {
    EXPECT_TRUE(wait_for_editor());
    type("\x04");
  });
  EXPECT_EQ(editing->read("> ").end, LineEnd::kEnd);
}

// Who sees a prompt may type: the terminal no longer echoes and edits by itself.
TEST_F(LineEditorTest, ThePromptIsShownOnceTheKeyboardIsTheEditors) {
  const auto editing = editor();
  const int screen = ::fileno(output_.get());
  ASSERT_EQ(::tcsetattr(screen, TCSANOW, &cooked_), 0);
  ASSERT_EQ(::tcflow(screen, TCOOFF), 0);  // the prompt waits
  std::jthread user([&] {
    EXPECT_TRUE(wait_for_editor());
    EXPECT_EQ(::tcflow(screen, TCOON), 0);
    type("hello\n");
  });
  EXPECT_EQ(editing->read("> ").text, "hello");
}

TEST_F(LineEditorTest, AnInterruptDropsTheLine) {
  const auto editing = editor();
  const uint64_t one = 1;
  ASSERT_EQ(::write(wake_.get(), &one, sizeof one), std::ssize(std::string(sizeof one, ' ')));
  EXPECT_EQ(editing->read("> ").end, LineEnd::kInterrupted);
  uint64_t count = 0;
  ASSERT_EQ(::read(wake_.get(), &count, sizeof count), std::ssize(std::string(sizeof one, ' ')));
  type("next\n");
  EXPECT_EQ(editing->read("> ").text, "next");
}

TEST(ChatHistoryFileTest, LiesInTheUsersStateFolder) {
  const TestFolder folder;
  ::setenv("XDG_STATE_HOME", (folder.path() / "state").c_str(), 1);
  EXPECT_EQ(chat_history_file(), folder.path() / "state" / "suture" / "chat_history");
  struct stat info {};
  ASSERT_EQ(::stat((folder.path() / "state" / "suture").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ::setenv("XDG_STATE_HOME", "", 1);
  ::setenv("HOME", folder.path().c_str(), 1);
  EXPECT_EQ(chat_history_file(), folder.path() / ".local/state/suture/chat_history");
}

}  // namespace
}  // namespace suture
