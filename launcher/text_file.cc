#include "launcher/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "base/unique_fd.h"
#include "models/unicode.h"

namespace suture {
namespace {

Result<UniqueFd> open_regular(const std::filesystem::path& path) {
  // Without blocking: a FIFO that nobody writes must not hang the check below.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() && errno == ENOENT)
    return fail(ErrorCode::kNotFound, "no such file", path.string());
  if (!fd.valid()) return fail_errno("cannot open", errno, path.string());
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    return fail_errno("cannot read the size", errno, path.string());
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    return fail(ErrorCode::kInvalidArgument, "is not a file", path.string());
  ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, size_t longest) {
  UniqueFd file;
  int fd = STDIN_FILENO;
  const std::string where = path == "-" ? "standard input" : path.string();
  if (path != "-") {
    SUTURE_ASSIGN_OR_RETURN(file, open_regular(path));
    fd = file.get();
  }
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("cannot read", errno, where);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > longest)
      return fail(ErrorCode::kInvalidArgument, fmt::format("is longer than {} bytes", longest),
                  where);
  }
}

Status check_utf8(std::string_view text, const std::string& where) {
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Character character = first_character(text.substr(offset));
    if (character.status != Utf8Status::kValid)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("is not UTF-8 at byte {} (0x{:02X})", offset,
                              static_cast<unsigned char>(text[offset])),
                  where, "convert the text to UTF-8");
    offset += character.bytes;
  }
  return {};
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t longest) {
  SUTURE_ASSIGN_OR_RETURN(std::string text, read_file(path, longest));
  SUTURE_RETURN_IF_ERROR(check_utf8(text, path == "-" ? "standard input" : path.string()));
  return text;
}

Result<std::vector<TextLine>> read_text_lines(const std::filesystem::path& path, size_t longest) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, longest));
  std::vector<TextLine> all;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      all.push_back({line, number, fmt::format("{}:{}", path.string(), number)});
  return all;
}

}  // namespace suture
