// The CPU side of each op. Arguments have been checked by the dispatcher of the same name; the
// functions run on the stream's pool and are done when they return.
#pragma once

#include <cstdint>

#include "kernels/affine.h"
#include "kernels/attention.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/kv_map.h"
#include "kernels/kv_plain.h"
#include "kernels/kv_rows.h"
#include "kernels/matmul.h"
#include "kernels/rope.h"

namespace suture {

Status attention_cpu(CpuStream& stream, const AttentionArgs& args);
void kv_append_cpu(CpuStream& stream, const KvAppendArgs& args);
void kv_gather_cpu(CpuStream& stream, const KvGatherArgs& args);
void kv_map_cpu(CpuStream& stream, const KvMapArgs& args);
void kv_plain_cpu(CpuStream& stream, const KvPlainArgs& args);
Status embedding_cpu(CpuStream& stream, const WeightView& table, const int32_t* ids, int64_t n_rows,
                     float scale, float* out);
void rms_norm_cpu(CpuStream& stream, const float* x, const float* weight, int64_t n_rows,
                  int64_t width, float eps, float* out);
void gated_silu_cpu(CpuStream& stream, const float* gate, const float* up, int64_t n, float* out);
void gated_gelu_tanh_cpu(CpuStream& stream, const float* gate, const float* up, int64_t n,
                         float* out);
void soft_cap_cpu(CpuStream& stream, float* x, int64_t n, float cap);
void add_cpu(CpuStream& stream, float* x, const float* y, int64_t n);
void centre_groups_cpu(CpuStream& stream, const CentreGroupsArgs& args);
void scale_shift_cpu(CpuStream& stream, const ScaleShiftArgs& args);
void rope_cpu(CpuStream& stream, const RopeArgs& args);
void top_k_cpu(const float* logits, int64_t n, int64_t k, int32_t* ids, float* values);
void penalize_cpu(const float* logits, int64_t n, const int32_t* ids, int64_t n_ids, float penalty,
                  float* out);
void log_sum_exp_cpu(CpuStream& stream, const float* logits, int64_t n, float* out);

}  // namespace suture
