// Options of commands that tell where a master looks.
#pragma once

#include <CLI/CLI.hpp>

#include "actors/launch.h"

namespace suture {

// --attention and --keyword; `query` must outlive the app.
void add_attention_flags(CLI::App& app, AttentionQuery& query);

}  // namespace suture
