// Finds pulled models for the tests that need them.
#pragma once

#include <filesystem>
#include <string_view>

namespace suture {

// Where `suture models pull NAME` puts the file; a test skips when nothing lies there.
std::filesystem::path real_model_path(std::string_view name);

}  // namespace suture

// Skips the calling test, with the reason, unless the model has been pulled.
#define SUTURE_REQUIRE_REAL_MODEL(name)                          \
  if (!std::filesystem::exists(::suture::real_model_path(name))) \
  GTEST_SKIP() << ::suture::real_model_path(name) << " is not there: suture models pull " << (name)
