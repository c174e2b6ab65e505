#include "launcher/attention_flags.h"

#include <string>

namespace suture {

void add_attention_flags(CLI::App& app, AttentionQuery& query) {
  app.add_flag("--attention", query.wanted,
               "Tell how much of the master's attention falls on its own tokens and on each slave, "
               "by layer");
  app.add_option("--keyword", query.keywords,
                 "And how much on this word, as it is written; may be given several times")
      ->allow_extra_args(false)
      ->each([&query](const std::string&) { query.wanted = true; });
}

}  // namespace suture
