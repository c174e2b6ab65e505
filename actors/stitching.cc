#include "actors/stitching.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "actors/trace_log.h"
#include "fusion/layer_map.h"

namespace suture {
namespace {

// How long one wait on the bus lasts before it looks whether the request was cancelled. It is
// renewed for as long as the owner lives: the broker alone decides that it does not.
constexpr std::chrono::milliseconds kWaitSlice{200};

int32_t slave_layer(const SourceLink& link, int32_t layer) {
  return link.layer_map[static_cast<size_t>(layer)];
}

bool sees(const SourceLink& link, int32_t layer) {
  const float gain = link.gain(layer);
  return slave_layer(link, layer) != kNoPartner && !(std::isinf(gain) && gain < 0);
}

bool sees_any(const SourceLink& link) {
  for (int32_t layer = 0; layer < std::ssize(link.layer_gain_bits); ++layer)
    if (sees(link, layer)) return true;
  return false;
}

}  // namespace

Stitching::Stitching(const GenerateRequest& request, const ModelConfig& config,
                     BrokerClient& broker, const std::atomic<bool>& cancelled)
    : request_(request), config_(config), broker_(broker), cancelled_(cancelled) {
  for (const SourceLink& link : request_.sources) sources_.push_back({&link, nullptr, false});
  build_plan();
}

Status Stitching::attach() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].reader) continue;
    if (Status status = attach_source(i); !status)
      SUTURE_RETURN_IF_ERROR(drop(i, 0, status.error()));
  }
  build_plan();
  return {};
}

Status Stitching::check_source(const SourceLink& link, const StreamInfo& info) const {
  const auto n_layers = static_cast<size_t>(config_.n_layers);
  if (link.layer_gain_bits.size() != n_layers || link.layer_map.size() != n_layers)
    return fail(ErrorCode::kIncompatible,
                fmt::format("{} gains and a layer map of {} for {} layers",
                            link.layer_gain_bits.size(), link.layer_map.size(), n_layers),
                link.name);
  for (const int32_t layer : link.layer_map)
    if (layer < kNoPartner || layer >= info.shape.n_layers)
      return fail(ErrorCode::kIncompatible,
                  fmt::format("layer {} of a slave that has {} layers", layer, info.shape.n_layers),
                  link.name);
  KvShape expected = config_.kv_shape();
  expected.n_layers = info.shape.n_layers;
  if (info.shape != expected)
    return fail(ErrorCode::kIncompatible, "the stream's K/V shape is not the master's", link.name,
                "run 'suture check' on the topology");
  return {};
}

Status Stitching::attach_source(size_t index) {
  const SourceLink& link = *sources_[index].link;
  const auto bytes = std::as_bytes(std::span(link.stream.info));
  SUTURE_ASSIGN_OR_RETURN(const StreamInfo info, decode_stream_info(bytes));
  SUTURE_RETURN_IF_ERROR(check_source(link, info));
  SUTURE_ASSIGN_OR_RETURN(const std::shared_ptr<SlabView> slab, broker_.slab(link.stream.owner));
  SUTURE_ASSIGN_OR_RETURN(StreamReader reader,
                          slab->attach({link.stream.slot, link.stream.generation}));
  for (const PlannedSegment& segment : link.segments)
    if (segment.end != PlannedSegment::kOpenEnd && segment.end > reader.capacity())
      return fail(ErrorCode::kIncompatible,
                  fmt::format("the plan needs {} entries, the stream has room for {}", segment.end,
                              reader.capacity()),
                  link.name);
  sources_[index].reader = std::make_unique<StreamReader>(std::move(reader));
  return {};
}

// One ForeignSegment for each planned segment of a slave that is still there.
void Stitching::build_plan() {
  plan_.own = request_.own;
  plan_.before.clear();
  plan_.after.clear();
  parts_.clear();
  for (const SlavePosition position : {SlavePosition::kPrefix, SlavePosition::kAligned})
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].reader || !sees_any(*sources_[i].link)) continue;
      for (const PlannedSegment& planned : sources_[i].link->segments) {
        if (planned.position != position) continue;
        parts_.push_back({i, &planned});
        (position == SlavePosition::kPrefix ? plan_.before : plan_.after)
            .push_back(foreign_segment(sources_[i], planned));
      }
    }
}

ForeignSegment Stitching::foreign_segment(const Source& source,
                                          const PlannedSegment& planned) const {
  ForeignSegment segment;
  for (int32_t layer = 0; layer < config_.n_layers; ++layer) {
    const bool seen = sees(*source.link, layer);
    segment.layers.push_back(seen ? source.reader->layer_view(slave_layer(*source.link, layer))
                                  : KvLayerView{});
    segment.log_gain.insert(segment.log_gain.end(), static_cast<size_t>(config_.n_heads),
                            source.link->gain(layer));
  }
  segment.begin = segment.end = planned.begin;
  segment.position_offset = planned.position_offset;
  segment.rotation_shift = planned.rotation_shift;
  // Of a prefix too: the master's head, which comes before it, must not see it.
  segment.visibility = Visibility::kUpTo;
  segment.lag = planned.lag;
  segment.visible_until = request_.stitch_end;
  return segment;
}

ForeignSegment& Stitching::segment(size_t part) {
  return part < plan_.before.size() ? plan_.before[part] : plan_.after[part - plan_.before.size()];
}

void Stitching::show(int64_t first_position, int64_t last_position) {
  if (last_position >= request_.stitch_end) leave_out(first_position);
  last_position = std::min(last_position, request_.stitch_end - 1);
  const int64_t row_bytes = config_.kv_shape().token_bytes();
  for (size_t part = 0; part < parts_.size(); ++part) {
    ForeignSegment& shown = segment(part);
    shown.end = visible_end(*parts_[part].planned, last_position);
    kv_bytes_read_ += (shown.end - shown.begin) * row_bytes;
  }
}

// Rows beyond the limit do without slaves; once no row is below it they are let go.
void Stitching::leave_out(int64_t first_position) {
  for (Source& source : sources_) {
    if (!source.reader || !sees_any(*source.link)) continue;
    if (!std::exchange(source.left_out, true))
      degraded_.push_back({source.link->name,
                           std::max<int64_t>(0, request_.stitch_end - request_.first_new_position),
                           "stitch_until reached: more tokens than it allows, own and slaves'"});
    if (first_position >= request_.stitch_end) source.reader.reset();
  }
  if (first_position >= request_.stitch_end) build_plan();
}

Status Stitching::wait_layer(int32_t layer) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!sees(*sources_[parts_[part].source].link, layer) ||
        segment(part).end == segment(part).begin)
      continue;
    const int32_t awaited = slave_layer(*sources_[parts_[part].source].link, layer);
    SUTURE_RETURN_IF_ERROR(wait_entries(parts_[part].source, awaited, segment(part).end));
  }
  return {};
}

Status Stitching::wait_step() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i].reader) continue;
    if (Status status = sources_[i].reader->begin_step(); !status) {
      lost_ = i;
      return status;
    }
  }
  for (size_t part = 0; part < parts_.size(); ++part)
    if (segment(part).end > segment(part).begin)
      SUTURE_RETURN_IF_ERROR(
          wait_entries(parts_[part].source, last_layer(parts_[part].source), segment(part).end));
  return {};
}

// A slave commits its layers in order: with the last one that is needed all are there.
int32_t Stitching::last_layer(size_t source) const {
  const SourceLink& link = *sources_[source].link;
  int32_t last = 0;
  for (int32_t layer = 0; layer < config_.n_layers; ++layer)
    if (sees(link, layer)) last = std::max(last, slave_layer(link, layer));
  return last;
}

Status Stitching::wait_entries(size_t source, int32_t layer, int64_t entries) {
  lost_.reset();
  StreamReader& reader = *sources_[source].reader;
  if (reader.committed(layer) >= entries) return {};
  ++bus_waits_;
  const int64_t start = monotonic_ns();
  Status status;
  do {
    status = reader.wait(layer, entries, deadline_in(kWaitSlice));
  } while (!status && status.error().code == ErrorCode::kTimeout &&
           !cancelled_.load(std::memory_order_acquire));
  bus_wait_seconds_ += seconds_since(start);
  if (status) return status;
  if (status.error().code == ErrorCode::kTimeout)
    return fail(ErrorCode::kCancelled, "the request was cancelled");
  lost_ = source;
  return status;
}

Status Stitching::drop(size_t source, int64_t token, const Error& why) {
  const SourceLink& link = *sources_[source].link;
  if (link.fail_when_lost)
    return fail(why.code, fmt::format("slave was lost at token {}: {}", token, why.what), link.name,
                "on_failure = \"degrade\" goes on without it");
  sources_[source].reader.reset();
  degraded_.push_back({link.name, token, why.what});
  lost_.reset();
  build_plan();
  return {};
}

void Stitching::report(ProcessFigures& figures) const {
  figures.bus_waits += bus_waits_;
  figures.bus_wait_seconds += bus_wait_seconds_;
  figures.kv_bytes_read += kv_bytes_read_;
}

}  // namespace suture
