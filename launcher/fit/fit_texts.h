// The texts that a projector is fitted to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"
#include "models/tokenizer.h"

namespace suture {

struct FitText {
  std::string text;
  int32_t kind = 0;  // index into FitTexts::kinds
};

struct FitTexts {
  std::vector<FitText> texts;
  std::vector<std::string> kinds;  // "code, python"; at most kMaxKinds
  std::vector<FitFile> files;      // with their digests

  static constexpr size_t kMaxKinds = 8;  // what comes later is of the last kind, "other"
};

// Files that end in .jsonl hold a JSON object with a `text` a line, and perhaps a `kind`, or
// `domain` and `lang`. Any other file is text, cut at line ends where it is long. kInvalidArgument
// names file and line.
Result<FitTexts> read_fit_texts(const std::vector<std::filesystem::path>& files);

// Whether the text of that number, among those of its kind, is held out: the middle one of each
// group, so that `share` of them are.
bool is_held_out(int64_t index_in_kind, double share);

// The texts that are held out, as such a .jsonl file: nothing has been fitted to them.
Status write_held_out_texts(const std::filesystem::path& path, const FitTexts& texts, double share);

// A part of a text that is read by itself.
struct FitPiece {
  std::string text;
  int32_t kind = 0;
  bool held_out = false;
};

struct PieceOptions {
  int64_t tokens = 512;  // of the tokenizer, the longest piece
  int64_t most = 0;      // pieces, taken evenly from each kind, as far as it has them; 0 = all
  double held_out_share = 0.1;  // of the texts of each kind
};

// Pieces too short to be worth reading are left out; those of one text are all held out, or none.
// The kinds come mixed. kInvalidArgument if none, or all, are held out.
Result<std::vector<FitPiece>> cut_pieces(const FitTexts& texts, const Tokenizer& tokenizer,
                                         const PieceOptions& options);

}  // namespace suture
