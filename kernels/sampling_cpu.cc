#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/ops.h"

namespace suture {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct Candidate {
  float value;
  int32_t id;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// Whether one of the logits may belong to the best. NaN counts as one that may.
bool may_be_better(const float* logits, int64_t n, float worst) {
  int above = 0;
  for (int64_t i = 0; i < n; ++i) above |= static_cast<int>(!(logits[i] <= worst));
  return above != 0;
}

}  // namespace

void top_k_cpu(const float* logits, int64_t n, int64_t k, int32_t* ids, float* values) {
  constexpr int64_t kBlock = 64;             // nearly all of which hold nothing better
  thread_local std::vector<Candidate> heap;  // the best so far, the worst of them in front
  heap.clear();
  const auto is_full = [&] { return static_cast<int64_t>(heap.size()) == k; };
  for (int64_t block = 0; block < n; block += kBlock) {
    const int64_t end = std::min(block + kBlock, n);
    if (is_full() && !may_be_better(logits + block, end - block, heap.front().value)) continue;
    for (int64_t id = block; id < end; ++id) {
      const Candidate candidate{std::isnan(logits[id]) ? kLowest : logits[id],
                                static_cast<int32_t>(id)};
      if (is_full()) {
        if (!better(candidate, heap.front())) continue;
        std::pop_heap(heap.begin(), heap.end(), better);
        heap.pop_back();
      }
      heap.push_back(candidate);
      std::push_heap(heap.begin(), heap.end(), better);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  for (int64_t i = 0; i < k; ++i) {
    ids[i] = heap[static_cast<size_t>(i)].id;
    values[i] = heap[static_cast<size_t>(i)].value;
  }
}

void penalize_cpu(const float* logits, int64_t n, const int32_t* ids, int64_t n_ids, float penalty,
                  float* out) {
  if (out != logits) std::copy_n(logits, n, out);
  for (int64_t i = 0; i < n_ids; ++i) {
    if (ids[i] < 0 || ids[i] >= n) continue;  // never trust an index with memory
    float& logit = out[ids[i]];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void log_sum_exp_cpu(CpuStream& stream, const float* logits, int64_t n, float* out) {
  constexpr int64_t kPiece = 4096;  // summed by one worker; the pieces are added in order
  const double max = *std::max_element(logits, logits + n);
  if (std::isinf(max)) {
    *out = static_cast<float>(max);
    return;
  }
  std::vector<double> sums(static_cast<size_t>((n + kPiece - 1) / kPiece));
  stream.pool().parallel_for(std::ssize(sums), [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      double sum = 0;
      for (int64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); ++i) {
        sum += std::exp(static_cast<double>(logits[i]) - max);
      }
      sums[static_cast<size_t>(piece)] = sum;
    }
  });
  *out = static_cast<float>(max + std::log(std::accumulate(sums.begin(), sums.end(), 0.0)));
}

}  // namespace suture
