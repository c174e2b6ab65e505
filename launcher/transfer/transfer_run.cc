#include "launcher/transfer/transfer_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/trace_log.h"

namespace suture {
namespace {

constexpr int kMostTimings = 3;
constexpr double kEnoughSeconds = 6;  // of timings of one thing

// What the target that read a context itself finds most likely in each place.
struct Reference {
  std::vector<int32_t> ids;   // [continued][k]
  std::vector<float> log_p;   // [continued][k]
  std::vector<int32_t> best;  // [continued]
};

Reference reference_of(const std::vector<ScoredToken>& tokens) {
  Reference reference;
  for (const ScoredToken& token : tokens) {
    for (const LikelyToken& likely : token.top) {
      reference.ids.push_back(likely.id);
      reference.log_p.push_back(likely.logprob);
    }
    reference.best.push_back(token.top.front().id);
  }
  return reference;
}

ArmScore self_score(const std::vector<ScoredToken>& tokens) {
  ArmScore score{.nll = 0, .kl = 0, .top1 = 1, .consistency = 0};
  const auto n = static_cast<double>(tokens.size());
  for (const ScoredToken& token : tokens) {
    score.nll -= token.logprob / n;
    score.consistency -= token.top.front().logprob / n;
  }
  return score;
}

// The watched tokens are those of the reference.
ArmScore arm_score(const std::vector<ScoredToken>& tokens, const Reference& reference) {
  ArmScore score;
  const auto n = static_cast<double>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t k = tokens[i].watched.size();
    score.nll -= tokens[i].logprob / n;
    score.kl += divergence(std::span(reference.log_p).subspan(i * k, k), tokens[i].watched) / n;
    score.consistency -= tokens[i].watched.front() / n;
    if (tokens[i].top.front().id == reference.best[i]) score.top1 += 1;
  }
  score.top1 /= n;
  return score;
}

double double_of(size_t count) { return static_cast<double>(count); }

class TransferRun {
 public:
  TransferRun(const TransferSetup& setup, const std::vector<LengthPlan>& plans,
              const TransferSurroundings& surroundings, const std::atomic<bool>& cancelled)
      : setup_(setup), plans_(plans), surroundings_(surroundings), cancelled_(cancelled) {
    for (const LengthPlan& plan : plans_) {
      LengthResult& length = result_.lengths.emplace_back();
      references_.emplace_back(plan.passages.size());
      for (const Passage& passage : plan.passages)
        length.passages.push_back({.kind = passage.kind, .arms = {}});
    }
    total_ = work_of_all();
  }

  TransferResult run() {
    const int64_t begun_ns = monotonic_ns();
    if (const Status status = run_stages(); !status) result_.ended_by = status.error();
    result_.seconds = seconds_since(begun_ns);
    return std::move(result_);
  }

 private:
  struct Asked {
    TransferArm arm = TransferArm::kSelf;
    TokenScoreOptions options;
    double work = 0;
  };

  Status run_stages();
  // Starts a launch, and does `work` with it for each length.
  Status stage(const LaunchSpec& spec, std::string_view name,
               const std::function<Status(const TransferSubject&, size_t)>& work);
  Status run_target(const TransferSubject& subject, size_t length);
  Status run_source(const TransferSubject& subject, size_t length);
  Status run_transferring(const TransferSubject& subject, size_t length);
  Status run_text_only(const TransferSubject& subject, size_t length);

  Result<Scoring> score(const TransferSubject& subject, const TokenScoreOptions& options,
                        double work);
  Status score_arm(const TransferSubject& subject, size_t length, size_t passage, Asked asked);
  // Reads the context so often that the least time is near what it takes; `take` gets each scoring.
  Status time_reading(const TransferSubject& subject, std::vector<int32_t> context, double work,
                      const std::function<double(const Scoring&)>& take);
  double work_of_all() const;
  double target_work(size_t tokens) const { return double_of(tokens) * setup_.target_cost; }
  double source_work(size_t tokens) const { return double_of(tokens) * setup_.source_cost; }

  const TransferSetup& setup_;
  const std::vector<LengthPlan>& plans_;
  const TransferSurroundings& surroundings_;
  const std::atomic<bool>& cancelled_;
  std::vector<std::vector<Reference>> references_;  // [lengths][passages]
  TransferResult result_;
  std::string stage_;
  double done_ = 0;
  double total_ = 0;
};

const ProcessFigures* figures_of(const Scoring& scoring, const std::string& process) {
  const auto found = std::ranges::find(scoring.figures, process, &ProcessFigures::name);
  return found == scoring.figures.end() ? nullptr : &*found;
}

// Without the time that it waited for others.
double own_seconds(const Scoring& scoring, const std::string& process) {
  const ProcessFigures* figures = figures_of(scoring, process);
  return figures == nullptr ? 0 : figures->prefill_seconds - figures->bus_wait_seconds;
}

double TransferRun::work_of_all() const {
  double work = 0;
  for (const LengthPlan& plan : plans_) {
    work += target_work(plan.timed.size()) + source_work(plan.timed.size());
    for (const Passage& passage : plan.passages)
      work += target_work(passage.context.size() + 4 * passage.continuation.size()) +
              source_work(3 * passage.context.size());
  }
  return work;
}

Status TransferRun::run_stages() {
  const auto doing = [this](auto method) {
    return [this, method](const TransferSubject& subject, size_t length) {
      return (this->*method)(subject, length);
    };
  };
  SUTURE_RETURN_IF_ERROR(
      stage(setup_.target_alone, "target alone", doing(&TransferRun::run_target)));
  SUTURE_RETURN_IF_ERROR(
      stage(setup_.source_alone, "source alone", doing(&TransferRun::run_source)));
  SUTURE_RETURN_IF_ERROR(
      stage(setup_.transferring, "transferred", doing(&TransferRun::run_transferring)));
  return stage(setup_.text_only, "text only", doing(&TransferRun::run_text_only));
}

Status TransferRun::stage(const LaunchSpec& spec, std::string_view name,
                          const std::function<Status(const TransferSubject&, size_t)>& work) {
  SUTURE_ASSIGN_OR_RETURN(const TransferSubject subject, surroundings_.start(spec));
  for (size_t length = 0; length < plans_.size(); ++length) {
    stage_ = fmt::format("{}, {} tokens", name, plans_[length].tokens);
    SUTURE_RETURN_IF_ERROR(work(subject, length));
  }
  return {};
}

Status TransferRun::run_target(const TransferSubject& subject, size_t length) {
  const LengthPlan& plan = plans_[length];
  double& seconds = result_.lengths[length].times.normal;
  SUTURE_RETURN_IF_ERROR(time_reading(subject, plan.timed, target_work(plan.timed.size()),
                                      [&](const Scoring& scoring) {
                                        const double taken = own_seconds(scoring, setup_.target);
                                        seconds = seconds == 0 ? taken : std::min(seconds, taken);
                                        return taken;
                                      }));
  for (size_t i = 0; i < plan.passages.size(); ++i) {
    const Passage& passage = plan.passages[i];
    Asked self{.arm = TransferArm::kSelf,
               .options = {.question = passage.context, .continuation = passage.continuation},
               .work = target_work(passage.context.size() + passage.continuation.size())};
    self.options.detail.top = kComparedTokens;
    SUTURE_RETURN_IF_ERROR(score_arm(subject, length, i, std::move(self)));
    Asked none{.arm = TransferArm::kNone,
               .options = {.question = {}, .continuation = passage.continuation},
               .work = target_work(passage.continuation.size())};
    if (setup_.beginning) none.options.question = {*setup_.beginning};
    SUTURE_RETURN_IF_ERROR(score_arm(subject, length, i, std::move(none)));
  }
  return {};
}

Status TransferRun::run_source(const TransferSubject& subject, size_t length) {
  const LengthPlan& plan = plans_[length];
  for (size_t i = 0; i < plan.passages.size(); ++i) {
    const Passage& passage = plan.passages[i];
    const TokenScoreOptions options{.question = setup_.source_tokens(passage.context),
                                    .continuation = setup_.source_tokens(passage.continuation)};
    SUTURE_ASSIGN_OR_RETURN(const Scoring scoring,
                            score(subject, options, source_work(passage.context.size())));
    // Of the same text, whatever its tokens are: by the target's tokens, to be comparable.
    const double nll =
        -scoring.continuations.front().logprob() / double_of(passage.continuation.size());
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    result_.lengths[length].passages[i].arms[static_cast<size_t>(TransferArm::kSource)] =
        ArmScore{.nll = nll, .kl = kUnknown, .top1 = kUnknown, .consistency = kUnknown};
  }
  return {};
}

Status TransferRun::run_transferring(const TransferSubject& subject, size_t length) {
  const LengthPlan& plan = plans_[length];
  TransferTimes& times = result_.lengths[length].times;
  SUTURE_RETURN_IF_ERROR(time_reading(
      subject, plan.timed, source_work(plan.timed.size()), [&](const Scoring& scoring) {
        if (times.whole != 0 && times.whole <= scoring.seconds) return scoring.seconds;
        times.whole = scoring.seconds;
        if (const ProcessFigures* source = figures_of(scoring, setup_.source); source != nullptr) {
          times.projection = source->projection_seconds;
          times.source = source->prefill_seconds - times.projection;
        }
        times.reread = own_seconds(scoring, setup_.target);
        return scoring.seconds;
      }));
  for (size_t i = 0; i < plan.passages.size(); ++i) {
    const Passage& passage = plan.passages[i];
    const double work =
        source_work(passage.context.size()) + target_work(passage.continuation.size());
    const TokenScoreOptions own{.question = passage.context, .continuation = passage.continuation};
    TokenScoreOptions other = own;
    other.aligned = passage.other;
    SUTURE_RETURN_IF_ERROR(score_arm(subject, length, i, {TransferArm::kTransferred, own, work}));
    SUTURE_RETURN_IF_ERROR(score_arm(subject, length, i, {TransferArm::kOtherText, other, work}));
  }
  return {};
}

Status TransferRun::run_text_only(const TransferSubject& subject, size_t length) {
  const LengthPlan& plan = plans_[length];
  for (size_t i = 0; i < plan.passages.size(); ++i) {
    const Passage& passage = plan.passages[i];
    Asked asked{.arm = TransferArm::kTextOnly,
                .options = {.question = passage.context, .continuation = passage.continuation},
                .work = target_work(passage.continuation.size())};
    SUTURE_RETURN_IF_ERROR(score_arm(subject, length, i, std::move(asked)));
  }
  return {};
}

// A slave that was lost would leave a number that means something else.
Result<Scoring> TransferRun::score(const TransferSubject& subject, const TokenScoreOptions& options,
                                   double work) {
  if (cancelled_.load()) return fail(ErrorCode::kCancelled, "interrupted", "transfer");
  SUTURE_ASSIGN_OR_RETURN(Scoring scoring, subject.score(options));
  if (!scoring.degraded.empty())
    return fail(ErrorCode::kLost, scoring.degraded.front().why, scoring.degraded.front().slave);
  done_ += work;
  surroundings_.on_progress(stage_, std::min(1.0, done_ / total_));
  return scoring;
}

Status TransferRun::score_arm(const TransferSubject& subject, size_t length, size_t passage,
                              Asked asked) {
  Reference& reference = references_[length][passage];
  const bool self = asked.arm == TransferArm::kSelf;
  if (!self) asked.options.detail = {.top = 1, .watched = reference.ids};
  SUTURE_ASSIGN_OR_RETURN(const Scoring scoring, score(subject, asked.options, asked.work));
  const std::vector<ScoredToken>& tokens = scoring.continuations.front().tokens;
  if (self) reference = reference_of(tokens);
  result_.lengths[length].passages[passage].arms[static_cast<size_t>(asked.arm)] =
      self ? self_score(tokens) : arm_score(tokens, reference);
  return {};
}

Status TransferRun::time_reading(const TransferSubject& subject, std::vector<int32_t> context,
                                 double work, const std::function<double(const Scoring&)>& take) {
  if (context.size() < 2)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a context of {} tokens cannot be timed", context.size()), "transfer");
  TokenScoreOptions options{.question = std::move(context), .continuation = {}};
  options.continuation = {options.question.back()};
  options.question.pop_back();
  double spent = 0;
  for (int i = 0; i < kMostTimings && spent < kEnoughSeconds; ++i) {
    SUTURE_ASSIGN_OR_RETURN(const Scoring scoring, score(subject, options, i == 0 ? work : 0));
    spent += take(scoring);
  }
  return {};
}

}  // namespace

TransferResult run_transfer(const TransferSetup& setup, const std::vector<LengthPlan>& plans,
                            const TransferSurroundings& surroundings,
                            const std::atomic<bool>& cancelled) {
  return TransferRun(setup, plans, surroundings, cancelled).run();
}

}  // namespace suture
