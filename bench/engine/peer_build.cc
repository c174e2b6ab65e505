#include "bench/engine/peer_build.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/program.h"

namespace suture {
namespace {

namespace fs = std::filesystem;

// g++ 12 drops most of the AMX tile configuration as dead stores, and that build crashes.
constexpr const char* kCCompiler = "clang-14";
constexpr const char* kCompiler = "clang++-14";

Status run(const std::vector<std::string>& argv) {
  SUTURE_ASSIGN_OR_RETURN(const ProgramResult result, run_program(argv));
  if (result.exit_code == 0) return {};
  constexpr size_t kShown = 2000;  // characters
  const size_t from = result.output.size() > kShown ? result.output.size() - kShown : 0;
  return fail(ErrorCode::kIo,
              fmt::format("exit code {}: ...{}", result.exit_code, result.output.substr(from)),
              argv[0]);
}

// The folder in which pip has put the library, its headers beside it.
Result<fs::path> packages_of(const fs::path& environment) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
    const fs::path packages = entry.path() / "site-packages";
    if (fs::exists(packages / "llama_cpp/lib/libllama.so") &&
        fs::exists(packages / "include/llama.h"))
      return packages;
  }
  return fail(ErrorCode::kNotFound, "no llama-cpp-python here", environment.string());
}

Status install(const PeerOptions& options) {
  std::set<std::string> flags = cpu_flags();
  if (!options.with_amx) std::erase_if(flags, [](const auto& f) { return f.starts_with("amx"); });
  const std::string pip = options.environment / "bin/pip";
  SUTURE_RETURN_IF_ERROR(run({"python3", "-m", "venv", options.environment.string()}));
  return run({"env", fmt::format("CC={}", kCCompiler), fmt::format("CXX={}", kCompiler),
              "CMAKE_ARGS=" + peer_cmake_flags(flags), pip, "install", "--no-cache-dir",
              "--no-binary", "llama-cpp-python",
              fmt::format("llama-cpp-python=={}", kPeerVersion)});
}

bool is_newer(const fs::path& file, const fs::path& than) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  return !error && time > fs::last_write_time(than, error) && !error;
}

}  // namespace

std::string peer_cmake_flags(const std::set<std::string>& cpu_flags) {
  constexpr std::array<std::pair<const char*, const char*>, 14> kOptions = {{
      {"sse4_2", "SSE42"},
      {"avx", "AVX"},
      {"avx2", "AVX2"},
      {"fma", "FMA"},
      {"f16c", "F16C"},
      {"bmi2", "BMI2"},
      {"avx512f", "AVX512"},
      {"avx512_vnni", "AVX512_VNNI"},
      {"avx512vbmi", "AVX512_VBMI"},
      {"avx512_bf16", "AVX512_BF16"},
      {"avx_vnni", "AVX_VNNI"},
      {"amx_tile", "AMX_TILE"},
      {"amx_int8", "AMX_INT8"},
      {"amx_bf16", "AMX_BF16"},
  }};
  std::string text = "-DGGML_NATIVE=OFF";
  for (const auto& [flag, option] : kOptions)
    text += fmt::format(" -DGGML_{}={}", option, cpu_flags.contains(flag) ? "ON" : "OFF");
  return text;
}

std::set<std::string> cpu_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

Result<fs::path> build_peer(const PeerOptions& options,
                            const std::function<void(const std::string&)>& progress) {
  if (!packages_of(options.environment)) {
    progress(fmt::format("building llama-cpp-python {} in {} (minutes)", kPeerVersion,
                         options.environment.string()));
    SUTURE_RETURN_IF_ERROR(install(options));
  }
  SUTURE_ASSIGN_OR_RETURN(const fs::path packages, packages_of(options.environment));
  const fs::path runner = options.environment / "bin/llamacpp_runner";
  if (is_newer(runner, options.source)) return runner;
  progress("building its runner");
  const std::string libraries = packages / "llama_cpp/lib";
  SUTURE_RETURN_IF_ERROR(
      run({kCompiler, "-O2", "-std=c++20", "-I" + (packages / "include").string(),
           options.source.string(), "-o", runner.string(), "-L" + libraries, "-lllama", "-lggml",
           "-lggml-base", "-Wl,-rpath," + libraries}));
  return runner;
}

}  // namespace suture
