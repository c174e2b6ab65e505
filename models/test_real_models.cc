#include "models/test_real_models.h"

#include <cstdlib>
#include <string>

namespace suture {

std::filesystem::path real_model_path(std::string_view name) {
  const auto variable = [](const char* key) {
    const char* value = std::getenv(key);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path folder = variable("SUTURE_MODELS");
  if (folder.empty()) {
    const std::filesystem::path cache = variable("XDG_CACHE_HOME");
    folder = (cache.is_absolute() ? cache : variable("HOME") / ".cache") / "suture" / "models";
  }
  return folder / (std::string(name) + ".gguf");
}

}  // namespace suture
