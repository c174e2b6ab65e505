#include "actors/batch_scheduler.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "actors/trace_log.h"

namespace suture {
namespace {

// Smaller ones would read the weights too often for what they compute.
constexpr int64_t kGridWhileDecoding = 128;

}  // namespace

void BatchScheduler::add(std::unique_ptr<SequenceTask> task) {
  entries_.push_back({.task = std::move(task), .last_chunk = chunks_});
}

bool BatchScheduler::work() {
  show_work();
  look();
  const bool stepped = step();
  if (stepped) look();  // hands over the new tokens before a chunk takes its time
  const bool ended = finish_ended();
  const bool read = read_chunk();
  return stepped || ended || read;
}

bool BatchScheduler::ready() {
  look();
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.turn != Turn::kWait; });
}

void BatchScheduler::add_doorbells(std::vector<DoorbellData*>& doorbells) {
  for (const Entry& entry : entries_) entry.task->add_doorbells(doorbells);
}

void BatchScheduler::look() {
  for (Entry& entry : entries_) entry.turn = entry.task->look();
}

bool BatchScheduler::step() {
  taking_part_.clear();
  rows_.clear();
  for (const Entry& entry : entries_) {
    if (entry.turn != Turn::kRow) continue;
    taking_part_.push_back(entry.task.get());
    rows_.push_back(entry.task->row());
  }
  constexpr size_t kMost = LanguageModel::kMaxBatch;
  for (size_t first = 0; first < rows_.size(); first += kMost)
    decode(first, std::min(kMost, rows_.size() - first));
  return !rows_.empty();
}

void BatchScheduler::decode(size_t first, size_t count) {
  const int64_t start = monotonic_ns();
  const auto logits = model_.decode_batch(std::span(rows_).subspan(first, count));
  for (size_t i = 0; i < count; ++i) taking_part_[first + i]->take_row(logits[i], start);
}

bool BatchScheduler::finish_ended() {
  const auto ended =
      std::stable_partition(entries_.begin(), entries_.end(),
                            [](const Entry& entry) { return entry.turn != Turn::kDone; });
  if (ended == entries_.end()) return false;
  std::vector<Entry> gone(std::make_move_iterator(ended), std::make_move_iterator(entries_.end()));
  entries_.erase(ended, entries_.end());
  show_work();
  for (const Entry& entry : gone) entry.task->finish();
  return true;
}

// Of those that could read, the one whose last chunk, or coming, is longest ago.
bool BatchScheduler::read_chunk() {
  Entry* next = nullptr;
  for (Entry& entry : entries_)
    if (entry.turn == Turn::kChunk && (next == nullptr || entry.last_chunk < next->last_chunk))
      next = &entry;
  if (next == nullptr) return false;
  next->last_chunk = ++chunks_;
  next->task->read_chunk(rows_.empty() ? kPrefillGrid : kGridWhileDecoding);
  return true;
}

// What the one that came first does stands for all.
void BatchScheduler::show_work() const {
  if (entries_.empty())
    meter_.show(OwnerWork::kIdle, 0);
  else
    meter_.show(entries_.front().task->work(), entries_.front().task->request());
}

}  // namespace suture
