// Where a running launch listens: a Unix socket in the user's run-time folder.
#pragma once

#include <sys/un.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// $XDG_RUNTIME_DIR/suture/NAME.sock, or /tmp/suture-UID/NAME.sock. Creates the folder, mode 0700;
// kPermission if it is not this user's alone. Names: 1 to 63 of A-Z a-z 0-9 . _ -
Result<std::filesystem::path> attach_socket_path(const std::string& name);

Result<sockaddr_un> socket_address(const std::filesystem::path& path);

// kNotFound if no launch of that name lives.
Result<UniqueFd> connect_to_launch(const std::string& name);

// Names of this user's launches that live, in alphabetical order.
Result<std::vector<std::string>> running_launches();

}  // namespace suture
