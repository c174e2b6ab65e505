#include "launcher/attach_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

namespace suture {
namespace {

Result<std::filesystem::path> run_time_folder() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  const std::filesystem::path folder =
      base != nullptr && *base != '\0'
          ? std::filesystem::path(base) / "suture"
          : std::filesystem::path(fmt::format("/tmp/suture-{}", ::geteuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot create the run-time folder", errno, folder.string(),
                      "set XDG_RUNTIME_DIR to a folder of your own");
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0)
    return fail_errno("cannot look at the run-time folder", errno, folder.string());
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return fail(ErrorCode::kPermission, "the run-time folder is not this user's alone",
                folder.string(), "remove it, or set XDG_RUNTIME_DIR to a folder of your own");
  return folder;
}

Status check_name(const std::string& name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!name.empty() && name.size() <= 63 && name.front() != '.' &&
      name.find_first_not_of(kAllowed) == std::string::npos)
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "a launch's name has 1 to 63 letters, digits, '_', '-' or '.', and does not "
              "start with '.'",
              name, "give another with --name");
}

}  // namespace

Result<std::filesystem::path> attach_socket_path(const std::string& name) {
  SUTURE_RETURN_IF_ERROR(check_name(name));
  SUTURE_ASSIGN_OR_RETURN(const std::filesystem::path folder, run_time_folder());
  return folder / (name + ".sock");
}

Result<sockaddr_un> socket_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a socket's path has at most {} bytes", sizeof address.sun_path - 1),
                text, "give a shorter --name");
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

Result<UniqueFd> connect_to_launch(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(const std::filesystem::path path, attach_socket_path(name));
  SUTURE_ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("cannot create a socket", errno, "attach");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorCode::kNotFound, fmt::format("no launch named '{}' is running", name),
                path.string(), "start one with 'suture launch TOPOLOGY --name " + name + "'");
  return fd;
}

Result<std::vector<std::string>> running_launches() {
  SUTURE_ASSIGN_OR_RETURN(const std::filesystem::path folder, run_time_folder());
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".sock" && connect_to_launch(entry.path().stem().string()))
      names.push_back(entry.path().stem().string());
  if (error) return fail_errno("cannot list", error.value(), folder.string());
  std::ranges::sort(names);
  return names;
}

}  // namespace suture
