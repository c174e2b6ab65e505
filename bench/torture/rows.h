// What stands in the rows and rings of bus_torture: every byte follows from owner, generation,
// layer, token and place, so that a reader can tell any byte that is not of its stream.
#pragma once

#include <cstdint>

#include "bench/torture/board.h"
#include "bus/stream_info.h"
#include "bus/stream_reader.h"
#include "bus/stream_writer.h"

namespace suture::torture {

inline constexpr int64_t kMaxTokens = 128;  // of one stream: four blocks
inline constexpr int32_t kSequences = 3;    // of that length

StreamInfo stream_info();  // 2 layers, 2 kv heads, head dim 16, float32

// Writes, in one layer, the rows from the committed count up to `end`.
void write_rows(const StreamWriter& writer, PeerId owner, int32_t layer, int64_t end);
// The epochs of tokens [first, end), before any layer of them is committed.
void write_epochs(StreamWriter& writer, PeerId owner, int64_t first, int64_t end);

// Bytes of rows [0, end) of a layer that are not what write_rows wrote.
uint64_t wrong_bytes(const StreamReader& reader, const StreamRef& ref, int32_t layer, int64_t end);
// Of the epochs of tokens [0, end).
uint64_t wrong_epoch_bytes(const StreamReader& reader, const StreamRef& ref, int64_t end);

// Token number `index` of an owner, counted over all its incarnations.
int32_t token_id(int owner_index, uint64_t index);

// A well-mixed function of its arguments.
uint64_t mix(uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0);

}  // namespace suture::torture
