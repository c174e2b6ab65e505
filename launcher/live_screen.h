// A terminal whose whole picture is drawn again and again, as by top.
#pragma once

#include <termios.h>

#include <string>

namespace suture {

// While it lives, the terminal shows its alternate screen, without cursor, and keys come at once
// and unseen. What was there before is back afterwards.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Lines beyond the terminal's height or width are cut off.
  void draw(const std::string& text) const;
  // Waits for a key, `timeout_ms` at most; true if it was 'q'.
  bool wait_for_quit(int timeout_ms) const;

 private:
  termios before_{};
  bool changed_ = false;  // standard input is a terminal, and its settings are not the old ones
};

// The first `rows` lines of `text`, each cut to `columns` bytes; each ends with the sequence that
// clears the rest of the line.
std::string fit_to_screen(const std::string& text, size_t rows, size_t columns);

}  // namespace suture
