#include "launcher/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "bus/memfd.h"
#include "kernels/cpu/isa.h"
#include "kernels/device.h"
#include "launcher/model_source.h"
#include "launcher/program.h"
#include "launcher/system_info.h"

namespace suture {
namespace {

using State = DoctorLine::State;

DoctorLine failed(std::string subject, const Error& error, const std::string& remedy) {
  return {std::move(subject), State::kFail, error.what,
          error.remedy.empty() ? remedy : error.remedy};
}

DoctorLine examine_processor() {
  const auto isa = isa_from_environment();
  if (!isa) return failed("processor", isa.error(), "unset SUTURE_ISA");
  std::string found = fmt::format("{}; kernels for {}", cpu_model_name(), isa_name(*isa));
  if (*isa != best_isa())
    return {"processor", State::kWarn, found + fmt::format(" (it has {})", isa_name(best_isa())),
            "unset SUTURE_ISA for full speed"};
  if (*isa == Isa::kScalar)
    return {"processor", State::kWarn, std::move(found),
            "models run, slowly: a processor with AVX2 is many times faster"};
  return {"processor", State::kOk, std::move(found), {}};
}

DoctorLine examine_cores() {
  const int cores = allowed_cores();
  std::string found = fmt::format("{} may be used", cores);
  if (cores > 1) return {"cores", State::kOk, std::move(found), {}};
  return {"cores", State::kWarn, std::move(found),
          "models that run at once take turns on one core"};
}

DoctorLine examine_memory() {
  constexpr uint64_t kComfortable = 4ull << 30;  // three processes of the default model
  const uint64_t available = available_memory_bytes();
  std::string found = fmt::format("{:.1f} GB are free", static_cast<double>(available) / 1e9);
  if (available >= kComfortable) return {"memory", State::kOk, std::move(found), {}};
  return {"memory", State::kWarn, std::move(found),
          "the default topology wants 4 GB; close programs or choose a smaller model"};
}

// The folder itself, or the nearest one above it that exists.
std::filesystem::path existing_part(std::filesystem::path path) {
  std::error_code error;
  path = std::filesystem::absolute(path, error);
  while (!path.empty() && !std::filesystem::exists(path, error) && path != path.parent_path())
    path = path.parent_path();
  return path;
}

DoctorLine examine_cache(const std::filesystem::path& cache) {
  const std::filesystem::path folder = existing_part(cache);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(folder, error);
  if (is_folder && ::access(folder.c_str(), W_OK | X_OK) == 0)
    return {"model cache", State::kOk, cache.string(), {}};
  return {"model cache", State::kFail,
          fmt::format("{}: {}", folder.string(), std::strerror(is_folder ? errno : ENOTDIR)),
          "set SUTURE_MODELS to a folder that can be written"};
}

DoctorLine examine_disk(const std::filesystem::path& cache) {
  constexpr uint64_t kComfortable = 2ull << 30;  // the largest model of the manifest and a part
  std::error_code error;
  const auto space = std::filesystem::space(existing_part(cache), error);
  if (error) return {"disk", State::kWarn, error.message(), "check the model cache's folder"};
  std::string found =
      fmt::format("{:.1f} GB are free for models", static_cast<double>(space.available) / 1e9);
  if (space.available >= kComfortable) return {"disk", State::kOk, std::move(found), {}};
  return {"disk", State::kWarn, std::move(found),
          "free some space, or set SUTURE_MODELS to a folder on another disk"};
}

// The bus stands on memory that its owner can seal against writers.
DoctorLine examine_shared_memory() {
  constexpr uint64_t kBytes = 4096;
  constexpr const char* kSubject = "shared memory";
  constexpr const char* kRemedy = "Linux 5.1 or newer is needed (memfd, F_SEAL_FUTURE_WRITE)";
  const auto fd = create_memfd("suture-doctor", kBytes);
  if (!fd) return failed(kSubject, fd.error(), kRemedy);
  const Status sealed = seal_memfd(fd->get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  if (!sealed) return failed(kSubject, sealed.error(), kRemedy);
  if (Mapping::shared(fd->get(), kBytes, Mapping::Access::kReadWrite))
    return {kSubject, State::kFail, "a sealed memory file could be mapped for writing", kRemedy};
  const auto readable = Mapping::shared(fd->get(), kBytes, Mapping::Access::kReadOnly);
  if (!readable) return failed(kSubject, readable.error(), kRemedy);
  return {kSubject, State::kOk, "memfd and seals work", {}};
}

DoctorLine examine_pidfd() {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (fd.valid()) return {"pidfd", State::kOk, "works", {}};
  return {"pidfd", State::kFail, std::strerror(errno),
          "Linux 5.3 or newer is needed, and a sandbox that allows pidfd_open"};
}

DoctorLine examine_pip() {
  const auto pip = find_pip();
  if (pip) return {"pip", State::kOk, fmt::format("{}", fmt::join(*pip, " ")), {}};
  return {"pip", State::kWarn, pip.error().what,
          "models can then only come from the model hub; " + pip.error().remedy};
}

DoctorLine examine_gpu() {
  std::error_code error;
  const bool device = std::filesystem::exists("/dev/nvidiactl", error);
  const auto nvcc = run_program({"nvcc", "--version"});
  const std::string found = fmt::format("{}, nvcc {}", device ? "NVIDIA GPU" : "no NVIDIA GPU",
                                        nvcc ? "found" : "not found");
  const auto opened = open_device("cuda:0", 1);
  if (opened) return {"gpu", State::kOk, fmt::format("{}: {}", found, (*opened)->name()), {}};
  return {"gpu",
          State::kOk,
          fmt::format("{}; models run on the CPU ({})", found, opened.error().what),
          {}};
}

}  // namespace

std::string_view state_name(DoctorLine::State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kWarn: return "warn";
    case State::kFail: return "fail";
  }
  return "unknown";
}

std::vector<DoctorLine> examine_computer(const std::filesystem::path& model_cache) {
  return {examine_processor(),
          examine_cores(),
          examine_memory(),
          examine_cache(model_cache),
          examine_disk(model_cache),
          examine_shared_memory(),
          examine_pidfd(),
          examine_pip(),
          examine_gpu()};
}

}  // namespace suture
