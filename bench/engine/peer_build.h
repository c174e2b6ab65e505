// llama.cpp as the peer to compare with: built on request in a Python environment of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace suture {

inline constexpr std::string_view kPeerVersion = "0.3.36";  // of llama-cpp-python

// What CMake is told so that the peer uses what the processor has; the names of /proc/cpuinfo.
std::string peer_cmake_flags(const std::set<std::string>& cpu_flags);

// Flags of this machine's first processor.
std::set<std::string> cpu_flags();

struct PeerOptions {
  std::filesystem::path environment;  // the Python environment; made and filled if it is not there
  std::filesystem::path source;       // of llamacpp_runner
  bool with_amx = true;               // where the processor has it
};

// The peer's runner, built if it is not there or older than its source.
Result<std::filesystem::path> build_peer(const PeerOptions& options,
                                         const std::function<void(const std::string&)>& progress);

}  // namespace suture
