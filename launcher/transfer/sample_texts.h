// Texts whose beginnings are read as contexts: a .txt file is one text, a .jsonl file has one a
// line, in a field `text`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"

namespace suture {

struct SampleText {
  std::string id;           // the file's name, and the line where it has several texts
  std::string kind;         // field `kind`, or "domain, lang"; empty where there is none
  std::string text;         // UTF-8, not empty
  std::string sha256;       // of the text
  std::string file_sha256;  // of its file
};

struct SampleTexts {
  std::vector<SampleText> texts;  // no text twice
  int64_t duplicates = 0;         // left out
};

// Errors name file, line and field.
Result<SampleTexts> load_sample_texts(const std::vector<std::filesystem::path>& files);

// Takes out the texts that are, or whose whole file is, among those of the fit; returns how many.
int64_t remove_fitted(std::vector<SampleText>& texts, const FitParameters& fit);

}  // namespace suture
