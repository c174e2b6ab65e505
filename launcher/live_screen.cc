#include "launcher/live_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace suture {
namespace {

constexpr const char* kEnter = "\033[?1049h\033[?25l";  // alternate screen, no cursor
constexpr const char* kLeave = "\033[?25h\033[?1049l";
constexpr const char* kHome = "\033[H";
constexpr const char* kClearLine = "\033[K";
constexpr const char* kClearBelow = "\033[J";

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

LiveScreen::LiveScreen() {
  if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
  }
  write_out(kEnter);
}

LiveScreen::~LiveScreen() {
  write_out(kLeave);
  if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void LiveScreen::draw(const std::string& text) const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  write_out(kHome + fit_to_screen(text, size.ws_row, size.ws_col) + kClearBelow);
}

bool LiveScreen::wait_for_quit(int timeout_ms) const {
  pollfd keys{STDIN_FILENO, POLLIN, 0};
  // Without a terminal to read from, poll() only waits.
  if (::poll(&keys, changed_ ? 1 : 0, timeout_ms) <= 0) return false;
  char key = 0;
  return ::read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q');
}

std::string fit_to_screen(const std::string& text, size_t rows, size_t columns) {
  std::string fitted;
  size_t begin = 0;
  for (size_t row = 0; row < rows && begin < text.size(); ++row) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (row > 0) fitted += "\r\n";
    fitted += text.substr(begin, std::min(end - begin, columns)) + kClearLine;
    begin = end + 1;
  }
  return fitted;
}

}  // namespace suture
