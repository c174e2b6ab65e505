// Writes what the processes did, and when, as trace-event JSON: Perfetto and chrome://tracing open
// it with one track a process.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "actors/figures.h"
#include "base/error.h"

namespace suture {

// Tracks stand in the order in which processes first appear. Times count from the first span.
std::string trace_json(std::span<const TraceSpan> spans);

// Before there is anything to write: whether that will be possible. Makes or empties the file.
Status check_trace_file(const std::filesystem::path& path);
Status write_trace(const std::filesystem::path& path, std::span<const TraceSpan> spans);

}  // namespace suture
