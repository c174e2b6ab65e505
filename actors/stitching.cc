#include "actors/stitching.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/trace_log.h"

namespace suture {
namespace {

// How long one wait on the bus lasts before it looks whether the request was cancelled. It is
// renewed for as long as the owner lives: the broker alone decides that it does not.
constexpr std::chrono::milliseconds kWaitSlice{200};

}  // namespace

int64_t position_of(const std::vector<OwnRun>& own, int64_t entry) {
  int64_t offset = 0;
  for (const OwnRun& run : own)
    if (run.begin <= entry) offset = run.position_offset;
  return entry + offset;
}

Stitching::Stitching(const GenerateRequest& request, LanguageModel& model,
                     const Vocabularies& vocabularies, const RowProjectors& projectors,
                     BrokerClient& broker, const std::atomic<bool>& cancelled)
    : request_(request),
      model_(model),
      config_(model.config()),
      vocabularies_(vocabularies),
      projectors_(projectors),
      broker_(broker),
      cancelled_(cancelled) {
  for (const SourceLink& link : request_.sources) sources_.emplace_back().link = &link;
  build_plan();
}

Status Stitching::attach() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].reader || is_reported(sources_[i].link->name)) continue;
    if (Status status = attach_source(i); !status)
      SUTURE_RETURN_IF_ERROR(drop(i, 0, status.error()));
  }
  build_plan();
  return {};
}

void Stitching::push(int32_t token) {
  for (Source& source : sources_) {
    if (source.projected) source.projected->push(token);
    if (!source.alignment) continue;
    source.alignment->push(token);
    extend_visibility(source);
  }
}

// An entry is visible once the text up to p - lag has committed it.
void Stitching::extend_visibility(Source& source) const {
  const auto& matches = source.alignment->matches();
  const int64_t lag = source.link->segments.empty() ? 0 : source.link->segments.front().lag;
  while (source.visible_from.size() < matches.size()) {
    const int64_t known_at = matches[source.visible_from.size()].known_at;
    source.visible_from.push_back(position_of(request_.own, known_at) + lag);
  }
}

// One ForeignSegment for each planned segment of a slave that is still there.
void Stitching::build_plan() {
  plan_.own = request_.own;
  plan_.before.clear();
  plan_.after.clear();
  parts_.clear();
  for (const SlavePosition position : {SlavePosition::kPrefix, SlavePosition::kAligned})
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].reader || !sources_[i].link->sees_any()) continue;
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
    const bool seen = source.link->sees(layer);
    KvLayerView view;
    if (seen && source.mapped)
      view = source.mapped->layer_view(layer);
    else if (seen && source.projected)
      view = source.projected->rows().layer_view(source.link->slave_layer(layer));
    else if (seen)
      view = source.reader->layer_view(source.link->slave_layer(layer));
    segment.layers.push_back(view);
    segment.log_gain.insert(segment.log_gain.end(), static_cast<size_t>(config_.n_heads),
                            source.link->gain(layer));
  }
  segment.begin = segment.end = std::max(planned.begin, source.first_entry());
  segment.position_offset = planned.position_offset;
  segment.rotation_shift = source.mapped ? 0 : planned.rotation_shift;
  // Of a prefix too: the master's head, which comes before it, must not see it. A text in other
  // tokens has a rule of its own for each entry.
  segment.visibility = source.alignment ? Visibility::kAlways : Visibility::kUpTo;
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
    const PlannedSegment& planned = *parts_[part].planned;
    const Source& source = sources_[parts_[part].source];
    shown.end = std::max(shown.begin, visible_end(planned, last_position));
    if (source.alignment) {
      const auto& rule = source.visible_from;
      const int64_t known = std::ranges::upper_bound(rule, last_position) - rule.begin();
      shown.begin = std::max(planned.begin, source.alignment->first_matched());
      shown.end = std::max(shown.begin, std::min(planned.end, known));
      shown.visible_from = rule;
    }
    kv_bytes_read_ += (shown.end - shown.begin) * row_bytes;
  }
}

// Rows beyond the limit do without slaves; once no row is below it they are let go.
void Stitching::leave_out(int64_t first_position) {
  for (Source& source : sources_) {
    if (!source.reader || !source.link->sees_any()) continue;
    if (!is_reported(source.link->name))
      degraded_.push_back({source.link->name,
                           std::max<int64_t>(0, request_.stitch_end - request_.first_new_position),
                           "stitch_until reached: more tokens than it allows, own and slaves'"});
    if (first_position >= request_.stitch_end) source.reader.reset();
  }
  if (first_position >= request_.stitch_end) build_plan();
}

Status Stitching::wait_layer(int32_t layer) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!sources_[parts_[part].source].link->sees(layer) ||
        segment(part).end == segment(part).begin)
      continue;
    const size_t source = parts_[part].source;
    SUTURE_RETURN_IF_ERROR(
        wait_entries(source, awaited_layer(source, layer), entries_needed(part)));
    SUTURE_RETURN_IF_ERROR(rewrite(part, layer));
  }
  return {};
}

Result<bool> Stitching::step_ready() {
  lost_.reset();
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i].reader) continue;
    if (const Status status = sources_[i].reader->begin_step(); !status) {
      lost_ = i;
      return tl::unexpected<Error>(status.error());
    }
  }
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (segment(part).end == segment(part).begin) continue;
    const size_t source = parts_[part].source;
    SUTURE_ASSIGN_OR_RETURN(const bool there,
                            has_entries(source, last_layer(source), entries_needed(part)));
    if (!there) return note_ready(false);
    for (int32_t layer = 0; layer < config_.n_layers; ++layer)
      if (sources_[source].link->sees(layer)) SUTURE_RETURN_IF_ERROR(rewrite(part, layer));
  }
  return note_ready(true);
}

Result<bool> Stitching::chunk_ready() {
  lost_.reset();
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (segment(part).end == segment(part).begin) continue;
    const size_t source = parts_[part].source;
    SUTURE_ASSIGN_OR_RETURN(const bool there,
                            has_entries(source, first_layer(source), entries_needed(part)));
    if (!there) return note_ready(false);
  }
  return note_ready(true);
}

bool Stitching::can_project() {
  for (size_t part = 0; part < parts_.size(); ++part)
    if (sources_[parts_[part].source].can_project(segment(part).end)) return true;
  return false;
}

Status Stitching::project(int64_t most) {
  lost_.reset();
  for (size_t part = 0; part < parts_.size(); ++part) {
    Source& source = sources_[parts_[part].source];
    const int64_t end = segment(part).end;
    if (source.can_project(end))
      return source.projected->extend(*source.reader, source.projected_entries(), end, most);
  }
  return {};
}

// A wait lasts from the first look that finds rows missing to the first that finds all.
bool Stitching::note_ready(bool ready) {
  if (!ready && awaited_since_ns_ == 0) {
    ++bus_waits_;
    awaited_since_ns_ = monotonic_ns();
  } else if (ready && awaited_since_ns_ != 0) {
    bus_wait_seconds_ += seconds_since(std::exchange(awaited_since_ns_, 0));
  }
  return ready;
}

void Stitching::add_doorbells(std::vector<DoorbellData*>& doorbells) const {
  for (const Source& source : sources_)
    if (source.reader) doorbells.push_back(&source.reader->doorbell());
}

// Entries of the slave's stream that what is shown of a part comes from.
int64_t Stitching::entries_needed(size_t part) {
  const int64_t end = segment(part).end;
  const Source& source = sources_[parts_[part].source];
  if (source.projected) return ProjectedSource::entries_needed(source.projected_entries(), end);
  const TokenAlignment* entries = source.entries();
  if (entries == nullptr) return end;
  return entries->matches()[static_cast<size_t>(end) - 1].slave_entry + 1;
}

Status Stitching::rewrite(size_t part, int32_t layer) {
  Source& source = sources_[parts_[part].source];
  const int64_t end = segment(part).end;
  if (source.projected)
    SUTURE_RETURN_IF_ERROR(
        source.projected->extend(*source.reader, source.projected_entries(), end, end));
  if (!source.mapped) return {};
  const RowSource rows =
      source.projected ? rows_of(source.projected->rows()) : rows_of(std::as_const(*source.reader));
  return source.mapped->map(rows, source.entries(), layer, end);
}

// Of the slave's, for what meets the master's layer: a projector takes its rows from any.
int32_t Stitching::awaited_layer(size_t source, int32_t layer) const {
  if (sources_[source].projected) return sources_[source].reader->n_layers() - 1;
  return sources_[source].link->slave_layer(layer);
}

// A slave commits its layers in order: with the last one that is needed all are there.
int32_t Stitching::last_layer(size_t source) const {
  const SourceLink& link = *sources_[source].link;
  int32_t last = 0;
  for (int32_t layer = 0; layer < config_.n_layers; ++layer)
    if (link.sees(layer)) last = std::max(last, awaited_layer(source, layer));
  return last;
}

// Of the master's, the first in which the slave takes part.
int32_t Stitching::first_layer(size_t source) const {
  const SourceLink& link = *sources_[source].link;
  int32_t layer = 0;
  while (!link.sees(layer)) ++layer;  // a slave that is seen nowhere has no part
  return awaited_layer(source, layer);
}

Result<bool> Stitching::has_entries(size_t source, int32_t layer, int64_t entries) {
  const StreamReader& reader = *sources_[source].reader;
  if (entries > reader.capacity()) {
    lost_ = source;
    return fail(ErrorCode::kOutOfMemory, "its stream has no room for more of the text",
                sources_[source].link->name, "raise max_seq_len in [bus]");
  }
  auto there = reader.has(layer, entries);
  if (!there) lost_ = source;
  return there;
}

Status Stitching::wait_entries(size_t source, int32_t layer, int64_t entries) {
  lost_.reset();
  SUTURE_ASSIGN_OR_RETURN(const bool there, has_entries(source, layer, entries));
  if (there) return {};
  StreamReader& reader = *sources_[source].reader;
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
  for (Source& part : sources_)
    if (part.link->name == link.name) part.reader.reset();
  if (!is_reported(link.name)) degraded_.push_back({link.name, token, why.what});
  lost_.reset();
  note_ready(true);
  build_plan();
  return {};
}

bool Stitching::is_reported(const std::string& slave) const {
  return std::ranges::find(degraded_, slave, &Degraded::slave) != degraded_.end();
}

void Stitching::report(ProcessFigures& figures) const {
  figures.bus_waits += bus_waits_;
  figures.bus_wait_seconds += bus_wait_seconds_;
  figures.kv_bytes_read += kv_bytes_read_;
  for (const Source& source : sources_)
    if (source.projected) figures.projection_seconds += source.projected->seconds();
}

}  // namespace suture
