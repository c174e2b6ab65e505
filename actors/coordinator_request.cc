// The part of the coordinator that turns a question into the master's request: whose streams take
// part, at which positions, with which gains.
#include <fmt/format.h>

#include <bit>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/coordinator.h"
#include "fusion/merge_plan.h"

namespace suture {

std::vector<float> Coordinator::layer_gains(const FusionSpec& fusion) const {
  std::vector<float> gains(static_cast<size_t>(setup_.master_layers),
                           static_cast<float>(fusion.gain));
  if (!fusion.layer_gain.empty()) gains.assign(fusion.layer_gain.begin(), fusion.layer_gain.end());
  return gains;
}

namespace {

// Of the master's text: its first tokens, and those from `end` on.
void leave_out_transferred(const std::vector<int32_t>& text, int64_t sink, MergeInput& input) {
  input.head_ids.assign(text.begin(), text.begin() + sink);
  input.tail_ids.assign(text.begin() + input.sources[0].transfer_end, text.end());
}

}  // namespace

Result<GenerateRequest> Coordinator::generation(RunningRequest& running) {
  const Question& question = running.question;
  MergeInput input;
  input.head_ids = setup_.contexts[master_].head_ids;
  input.tail_ids = question.tail_ids;
  input.opening_tokens = question.opening_tokens + question.scored_tokens;
  input.max_new_tokens = question.max_tokens;
  input.max_positions = setup_.master_positions;
  input.n_layers = setup_.master_layers;
  input.stitch_until = setup_.spec.stitch_limit();
  std::vector<SourceLink> links;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (i != master_) SUTURE_RETURN_IF_ERROR(add_source(running, i, input, links));
  const bool transfers = !input.sources.empty() && input.sources[0].transfer_end > 0;
  if (transfers) leave_out_transferred(running.own_ids, transfer_slave()->fusion.sink, input);
  auto planned = plan_merge(input);
  if (!planned && question.conversation != 0) planned.error().remedy = kBeginAnew;
  SUTURE_ASSIGN_OR_RETURN(const MergePlan plan, std::move(planned));
  for (const PlannedSegment& segment : plan.segments)
    links[static_cast<size_t>(segment.source)].segments.push_back(segment);

  GenerateRequest request;
  request.request = question.request;
  std::tie(request.head_key, request.head_entries) = read_before(running, master_);
  if (transfers) {
    request.token_ids = input.head_ids;
    request.token_ids.insert(request.token_ids.end(), input.tail_ids.begin(), input.tail_ids.end());
    request.whole_ids = running.own_ids;
  } else {
    request.token_ids = running.own_ids;
    request.answers = own_answers(running);
    if (question.conversation != 0) running.keep_key = new_key();
  }
  request.keep_key = running.keep_key;
  request.own = plan.own;
  request.first_new_position = plan.first_new_position;
  request.stitch_end = plan.stitch_end;
  std::erase_if(links, [](const SourceLink& link) { return link.stream.owner.empty(); });
  request.sources = std::move(links);
  request.max_tokens = question.max_tokens;
  if (!question.ignore_eos) request.end_ids = setup_.end_ids;
  request.sampling = question.sampling;
  request.ring = question.ring;
  request.generated = running.generated;
  request.attempt = running.attempt;
  request.scored_tokens = question.scored_tokens;
  request.watch = question.watch;
  request.score_detail = question.score_detail;
  return request;
}

Status Coordinator::refuse_without(const ModelSpec& slave) const {
  const auto gone = gone_.find(slave.name);
  const bool returns = gone != gone_.end() && gone->second.restarts;
  return fail(ErrorCode::kLost,
              gone == gone_.end() ? "the slave cannot take part"
                                  : fmt::format("the slave is gone: {}", gone->second.why),
              slave.name,
              returns ? "try again in a few seconds; on_failure = \"degrade\" goes on without it"
                      : "on_failure = \"degrade\" goes on without it");
}

// A slave that is not there any more keeps its place, with a link that has no stream; so does one
// whose text is transferred and not listened to.
Status Coordinator::add_source(RunningRequest& running, size_t index, MergeInput& input,
                               std::vector<SourceLink>& links) {
  const ModelSpec& slave = model(index);
  const ModelContext& context = setup_.contexts[index];
  const int64_t end = slave.transfers() ? transfer_end(running) : 0;
  if (slave.transfers() ? end == 0 : is_left_out(index)) return {};
  const bool prefix = slave.is_slave_at(SlavePosition::kPrefix);
  const RequestText* text = prefix ? text_of(running, index) : nullptr;
  const auto& read_ids = text != nullptr ? text->token_ids : context.head_ids;
  const int64_t shared = text != nullptr ? text->shared_tokens : context.shared_tokens;
  if (prefix && shared == std::ssize(read_ids)) return {};  // it has read nothing of its own
  const bool must = slave.on_failure == OnFailure::kFail;
  const Reading* reading = reading_of(running, index);
  const Reading* draft = draft_of(running, index);
  const bool there = reading != nullptr && reading->stream && reading->why.empty() &&
                     !is_left_out(index) && !running.lost.contains(index) &&
                     (draft == nullptr || draft->why.empty());
  if (!there && must && !is_left_out(index)) return refuse_without(slave);
  const std::set<size_t>* before = conversations_.placed(running.question.conversation);
  if (running.attempt > 0) before = &running.placed;
  const bool placed = prefix && before != nullptr ? before->contains(index) : there;
  if (!placed && !is_left_out(index)) return {};
  if (prefix) running.placed.insert(index);
  const std::vector<float> gains = layer_gains(slave.fusion);
  SourceLink link;
  link.name = slave.name;
  if (there) link.stream = *reading->stream;
  link.fail_when_lost = must;
  for (const float gain : gains) link.layer_gain_bits.push_back(std::bit_cast<uint32_t>(gain));
  link.layer_map = context.layer_map;
  link.other_vocabulary = context.other_vocabulary && !prefix && !slave.transfers();
  link.projected = slave.projects();
  link.project_here = slave.projects_in(ProjectorUse::kReader);
  if (link.project_here) link.given = given_text(running, index);
  links.push_back(link);
  input.sources.push_back(
      {slave.name, slave.fusion.position, read_ids, shared, gains, slave.fusion.lag, end});
  if (there) add_draft(running, link, input, links);
  return {};
}

GivenText Coordinator::given_text(const RunningRequest& running, size_t index) const {
  const bool as_text = !text_owner(index).empty();
  if (!reads_for_request(running, index)) return {setup_.contexts[index].head_ids, {}, as_text};
  ReadRequest reading = own_reading(running, index);
  return {std::move(reading.token_ids), std::move(reading.answers), as_text};
}

// Slaves that cannot take part from the start are reported like those lost on the way.
void Coordinator::note_lost_slaves(RunningRequest& running) const {
  running.report.degraded.clear();
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    if (i == master_ || !is_concerned(running, i)) continue;
    if (model(i).transfers() && transfer_end(running) == 0) continue;
    const Reading* reading = reading_of(running, i);
    const auto gone = gone_.find(model(i).name);
    const auto lost = running.lost.find(i);
    if (lost != running.lost.end())
      running.report.degraded.push_back(lost->second);
    else if (gone != gone_.end())
      running.report.degraded.push_back({model(i).name, 0, gone->second.why});
    else if (reading != nullptr && !reading->why.empty())
      running.report.degraded.push_back({model(i).name, 0, reading->why});
    else if (const Reading* draft = draft_of(running, i); draft != nullptr && !draft->why.empty())
      running.report.degraded.push_back({model(i).name, 0, draft->why});
  }
}

}  // namespace suture
