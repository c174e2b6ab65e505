// The vocabularies that a model process needs besides its weights: its own and those of models
// whose tokens are other ones.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/tokenizer.h"

namespace suture {

class Vocabularies {
 public:
  // `others`: files by name of the process. Without others nothing is loaded.
  static Result<Vocabularies> load(const Checkpoint& own,
                                   const std::map<std::string, std::filesystem::path>& others);

  // Both kNotFound if the launch has not said that they are needed.
  Result<const Tokenizer*> own() const;
  Result<const Tokenizer*> of(const std::string& process) const;

 private:
  std::unique_ptr<Tokenizer> own_;
  std::map<std::string, std::unique_ptr<Tokenizer>> others_;
};

}  // namespace suture
