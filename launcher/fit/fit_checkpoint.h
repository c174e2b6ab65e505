// What a fit has gathered, on disk, so that it can go on after it was interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "launcher/fit/gathering.h"

namespace suture {

// Everything that the gathered moments depend on: models, shape, and the tokens of all readings.
// A digest, hexadecimal.
std::string fit_binding(const ProjectorSide& source, const ProjectorSide& target,
                        const FitShape& shape, const std::vector<FitReading>& readings);

// Takes the place of the file that was there once it is whole. Changes nothing in `gathered`.
Status write_checkpoint(const std::filesystem::path& path, const std::string& binding,
                        Gathered& gathered);

// Into `gathered`, which has the shape of what was saved; undefined after an error. kNotFound if
// there is no such file, kIncompatible if it belongs to something else, kCorrupt if it is damaged.
Status read_checkpoint(const std::filesystem::path& path, const std::string& binding,
                       int64_t n_readings, Gathered& gathered);

}  // namespace suture
