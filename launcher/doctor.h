// Looks at what Suture needs from this computer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace suture {

struct DoctorLine {
  enum class State : uint8_t { kOk, kWarn, kFail };

  std::string subject;  // "memory"
  State state = State::kOk;
  std::string found;   // what there is
  std::string remedy;  // empty if all is well
};

std::string_view state_name(DoctorLine::State state);

// One line a subject. Changes nothing on the computer.
std::vector<DoctorLine> examine_computer(const std::filesystem::path& model_cache);

}  // namespace suture
