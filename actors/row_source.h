// K/V rows to be read, wherever they lie: in a cache of this process, or in another one's stream.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/kv_layout.h"

namespace suture {

struct RowSource {
  KvShape shape;
  std::function<KvLayerView(int32_t layer)> layer_view;
  std::function<int64_t(int64_t entry)> rope_epoch;
};

// Of a KvCache or a StreamReader, which must outlive the answer.
template <typename Rows>
RowSource rows_of(Rows& rows) {
  return {rows.shape(), [&rows](int32_t layer) { return rows.layer_view(layer); },
          [&rows](int64_t entry) { return rows.rope_epoch(entry); }};
}

}  // namespace suture
