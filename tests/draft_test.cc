// What slaves say by themselves before the master answers, in processes, against the same computed
// in one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "actors/prompt_builder.h"
#include "fusion/token_alignment.h"
#include "models/test_vocabulary.h"
#include "tests/test_mapped_launch.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kQuestion = "why is it dry in the north, and for how long";
constexpr const char* kDocument = "the rain in the south came down on the other hand";
constexpr const char* kProject = "mode = \"project\", projector = \"p.suture\"";
constexpr int64_t kDraft = 12;

// A slave's own greedy continuation of a text.
class Thought {
 public:
  Thought(const std::filesystem::path& path, std::vector<int32_t> read, int64_t most)
      : model_(load_model(path)), read_(std::ssize(read)), ids_(std::move(read)) {
    const auto tokenizer = tokenizer_of(*model_);
    rows_ = model_->make_cache(read_ + most).value();
    const float* logits = read_alone(*model_, *rows_, ids_);
    while (drafted() < most) {
      const int32_t next = best_token(*model_, logits);
      if (tokenizer->is_end(next)) break;
      ids_.push_back(next);
      logits = model_->decode(next, *rows_).value();
    }
  }

  int64_t drafted() const { return std::ssize(ids_) - read_; }
  std::vector<int32_t> said() const { return {ids_.begin() + read_, ids_.end()}; }

  // As they are, for a master with as many layers.
  ForeignSegment segment() {
    ForeignSegment segment = of(*rows_, model_->config().n_layers);
    segment.begin = read_;
    segment.end = rows_->size();
    return segment;
  }
  // Mapped, one row for each of these entries of what was said, as the master's tokens `ids`.
  ForeignSegment mapped(LanguageModel& master, const Projector& projector,
                        std::vector<int32_t> entries, std::span<const int32_t> ids) {
    for (int32_t& entry : entries) entry += static_cast<int32_t>(read_);
    const auto n = std::ssize(entries);
    mapped_ = master.make_cache(n).value();
    AppliedProjector(projector, master, n).map(*rows_, entries, ids, MatmulPath::kDecode, *mapped_);
    ForeignSegment segment = of(*mapped_, master.config().n_layers);
    segment.end = n;
    return segment;
  }

 private:
  static ForeignSegment of(KvCache& rows, int32_t n_layers) {
    ForeignSegment segment;
    for (int32_t layer = 0; layer < n_layers; ++layer)
      segment.layers.push_back(rows.layer_view(layer));
    segment.visibility = Visibility::kUpTo;
    segment.lag = 0;
    return segment;
  }

  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<KvCache> rows_;
  std::unique_ptr<KvCache> mapped_;
  int64_t read_;
  std::vector<int32_t> ids_;
};

class DraftSystemTest : public MappedLaunchTest {
 protected:
  DraftSystemTest() { folder_.write("document.txt", kDocument); }

  std::unique_ptr<Launch> start(const std::string& fusion, const TemporaryFile& slave,
                                const std::string& lines = "",
                                const std::string& file_lines = "") const {
    return start_text_launch(
        {folder_.path(), master_.path(), slave.path(),
         fusion.empty() ? "" : fmt::format("fusion = {{ {} }}\n{}", fusion, lines), file_lines});
  }
  static std::string with_draft(const std::string& fusion, int64_t tokens = kDraft) {
    return fmt::format("{}, draft = {}", fusion, tokens);
  }
  static Scoring score(Launch& launch) {
    return MappedLaunchTest::score(
        launch, {.text = kQuestion, .continuations = {" because of the wind", "x"}});
  }
  static AskOptions question(int64_t max_tokens) {
    AskOptions options;
    options.text = kQuestion;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    return options;
  }
  static Answer ask(Launch& launch, const AskOptions& options,
                    const std::atomic<bool>& cancelled = false) {
    auto answer = launch.ask(
        options, [](std::string_view) {}, cancelled);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer.value_or(Answer());
  }
  static Answer ask(Launch& launch, int64_t max_tokens) {
    return ask(launch, question(max_tokens));
  }

  // Before the question.
  std::vector<int32_t> head(const std::vector<std::string>& documents) const {
    return laid_out([&](PromptBuilder& prompts) { return prompts.head("ab", documents); });
  }
  std::vector<int32_t> tail() const {
    return laid_out([](PromptBuilder& prompts) { return prompts.tail(kQuestion); });
  }
  // Tokens after the question's own.
  int64_t opening() const {
    const auto tokenizer = tokenizer_of(*load_model(master_.path()));
    return std::ssize(tail()) - std::ssize(tokenizer->encode(kQuestion, SpecialTokens::kAsText));
  }
  template <typename Build>
  std::vector<int32_t> laid_out(const Build& build) const {
    const auto model = load_model(master_.path());
    std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(*model);
    const ChatFormat format = ChatFormat::detect(tokenizer->vocabulary()).value();
    EncodingCache encodings(tokenizer, 8);
    PromptBuilder prompts(encodings, format);
    return build(prompts);
  }

  static void lay(ForeignSegment& segment, int64_t position) {
    segment.position_offset = segment.rotation_shift = position - segment.begin;
  }
};

// The draft lies between question and opening; what the slave has read meets the master on both
// sides of it.
TEST_F(DraftSystemTest, AnAlignedSlavesThoughtComesBeforeTheAnswer) {
  const auto launch = start(with_draft("lag = 2"), master_);
  const Scoring scoring = score(*launch);
  const auto master = load_model(master_.path());
  const std::vector<int32_t> prompt = scoring.question_ids;
  Thought thought(master_.path(), prompt, kDraft);
  ASSERT_GT(thought.drafted(), 0);
  const int64_t entry = std::ssize(prompt) - opening();
  ForeignSegment draft = thought.segment();
  lay(draft, entry);
  for (const ScoredContinuation& continuation : scoring.continuations) {
    const std::vector<int32_t> ids = with(prompt, continuation);
    MappedRows rows(master_.path(), *master, ids, nullptr);
    ForeignSegment before = rows.segment(0, entry);
    ForeignSegment after = rows.segment(entry, std::ssize(ids) - 1);
    before.lag = after.lag = 2;
    after.position_offset = after.rotation_shift = thought.drafted();
    const SequencePlan plan{
        .own = {{0, 0}, {entry, thought.drafted()}}, .before = {draft}, .after = {before, after}};
    const auto index = static_cast<size_t>(&continuation - scoring.continuations.data());
    EXPECT_EQ(
        logprobs(scoring)[index],
        logprobs_of(*master, plan, ids, std::ssize(continuation.tokens), std::ssize(head({}))));
  }
}

// Token by token the slave follows the answer, as if it had said nothing itself.
TEST_F(DraftSystemTest, AnswersGoOnFromTheThought) {
  constexpr int64_t kTokens = 40;
  const auto launch = start(with_draft("gain = 0"), master_);
  const Answer answer = ask(*launch, kTokens);
  const std::vector<int32_t> prompt = score(*launch).question_ids;
  const auto master = load_model(master_.path());
  Thought thought(master_.path(), prompt, kDraft);
  const int64_t entry = std::ssize(prompt) - opening();
  const int64_t shift = thought.drafted();
  ForeignSegment draft = thought.segment();
  lay(draft, entry);
  MappedRows rows(master_.path(), *master, prompt, nullptr, kTokens);
  const auto plan_for = [&](int64_t last_entry) {
    ForeignSegment before = rows.segment(0, entry);
    ForeignSegment after = rows.segment(entry, last_entry);
    after.position_offset = after.rotation_shift = shift;
    return SequencePlan{
        .own = {{0, 0}, {entry, shift}}, .before = {draft}, .after = {before, after}};
  };
  const std::vector<int32_t> expected =
      answer_beside(*master, rows, prompt, std::ssize(head({})), kTokens, plan_for);
  EXPECT_EQ(answer.token_ids, expected);
  ASSERT_EQ(answer.drafts.size(), 1u);
  EXPECT_EQ(answer.drafts[0].slave, "s");
  EXPECT_EQ(answer.drafts[0].token_ids, thought.said());
  std::string text;
  const auto tokenizer = tokenizer_of(*master);
  StreamingDecoder decoder(*tokenizer);
  for (const int32_t id : thought.said()) text += decoder.push(id);
  EXPECT_EQ(answer.drafts[0].text, text + decoder.finish());
  // The same bits in one process, beside others, and once more; without the draft others.
  const auto in_process = start(with_draft("gain = 0"), master_, "", "placement = \"in-process\"");
  EXPECT_EQ(ask(*in_process, kTokens).token_ids, expected);
  std::vector<int32_t> beside;
  std::thread other([&] { beside = ask(*launch, kTokens).token_ids; });
  EXPECT_EQ(ask(*launch, kTokens).token_ids, expected);
  other.join();
  EXPECT_EQ(beside, expected);
  EXPECT_NE(ask(*start("gain = 0", master_), kTokens).token_ids, expected);
  EXPECT_EQ(ask(*start(with_draft("gain = -inf"), master_), kTokens).token_ids,
            ask(*start("", master_), kTokens).token_ids);
}

// It has read its documents once; the question is read for the draft.
TEST_F(DraftSystemTest, APrefixSlaveThinksAboutTheQuestionWithItsDocuments) {
  const auto launch =
      start(with_draft("position = \"prefix\""), master_, "documents = [\"document.txt\"]");
  const Scoring scoring = score(*launch);
  const std::vector<int32_t> own_head = head({});
  const std::vector<int32_t> read = head({kDocument});
  std::vector<int32_t> asked = read;
  const std::vector<int32_t> more = tail();
  asked.insert(asked.end(), more.begin(), more.end());
  const auto master = load_model(master_.path());
  Thought thought(master_.path(), asked, kDraft);
  ASSERT_GT(thought.drafted(), 0);
  MappedRows rows(master_.path(), *master, read, nullptr);
  const auto shared = std::ssize(own_head);
  const int64_t common = std::ranges::mismatch(own_head, read).in1 - own_head.begin();
  const auto length = std::ssize(read);
  ForeignSegment document = rows.segment(common, length);
  document.lag = 0;
  lay(document, shared);
  const int64_t offset = length - common;
  const int64_t entry = std::ssize(scoring.question_ids) - opening();
  ForeignSegment draft = thought.segment();
  lay(draft, entry + offset);
  const SequencePlan plan{.own = {{0, 0}, {shared, offset}, {entry, offset + thought.drafted()}},
                          .before = {document, draft},
                          .after = {}};
  for (size_t i = 0; i < scoring.continuations.size(); ++i)
    EXPECT_EQ(logprobs(scoring)[i],
              logprobs_of(*master, plan, with(scoring.question_ids, scoring.continuations[i]),
                          std::ssize(scoring.continuations[i].tokens), shared));
  EXPECT_EQ(ask(*launch, 8).drafts.at(0).token_ids, thought.said());
}

TEST_F(DraftSystemTest, AThoughtIsMappedByTheProjector) {
  const Projector projector = make_projector(other_);
  const Scoring scoring = score(*start(with_draft(kProject), other_));
  const auto master = load_model(master_.path());
  const std::vector<int32_t> prompt = scoring.question_ids;
  Thought thought(other_.path(), prompt, kDraft);
  ASSERT_GT(thought.drafted(), 0);
  std::vector<int32_t> all(static_cast<size_t>(thought.drafted()));
  std::iota(all.begin(), all.end(), 0);
  ForeignSegment draft = thought.mapped(*master, projector, all, thought.said());
  const int64_t entry = std::ssize(prompt) - opening();
  lay(draft, entry);
  for (size_t i = 0; i < scoring.continuations.size(); ++i) {
    const std::vector<int32_t> ids = with(prompt, scoring.continuations[i]);
    MappedRows rows(other_.path(), *master, ids, &projector);
    ForeignSegment before = rows.segment(0, entry);
    ForeignSegment after = rows.segment(entry, std::ssize(ids) - 1);
    after.position_offset = after.rotation_shift = thought.drafted();
    const SequencePlan plan{
        .own = {{0, 0}, {entry, thought.drafted()}}, .before = {draft}, .after = {before, after}};
    EXPECT_EQ(logprobs(scoring)[i],
              logprobs_of(*master, plan, ids, std::ssize(scoring.continuations[i].tokens),
                          std::ssize(head({}))));
  }
}

// One row for each of the master's tokens of the text that the stranger said in its own.
TEST_F(DraftSystemTest, AStrangersThoughtMeetsTheMasterByBytes) {
  constexpr int64_t kReread = 20;
  const Projector projector = make_projector(stranger_);
  const Scoring scoring =
      score(*start(with_draft(fmt::format(
                       "mode = \"transfer\", projector = \"p.suture\", reread = {}", kReread)),
                   stranger_));
  const auto master = load_model(master_.path());
  const auto own = tokenizer_of(*master);
  const auto stranger = tokenizer_of(*load_model(stranger_.path()));
  const std::vector<int32_t> prompt = scoring.question_ids;
  TokenAlignment alignment(*own, *stranger);
  for (const int32_t id : prompt) alignment.push(id);
  alignment.finish();
  Thought thought(stranger_.path(), alignment.slave_ids(), kDraft);
  ASSERT_GT(thought.drafted(), 0);
  // The byte after each of its tokens, and for each of the master's the last one that is reached.
  std::string text;
  std::vector<size_t> ends;
  for (const int32_t id : thought.said()) {
    text += stranger->piece(id);
    ends.push_back(text.size());
  }
  std::vector<int32_t> entries, own_ids;
  size_t at = 0;
  for (const int32_t id : own->encode(text, SpecialTokens::kAsText)) {
    at += own->piece(id).size();
    int32_t last = -1;
    for (size_t i = 0; i < ends.size() && ends[i] <= at; ++i) last = static_cast<int32_t>(i);
    if (last < 0) continue;
    entries.push_back(last);
    own_ids.push_back(id);
  }
  ASSERT_FALSE(entries.empty());
  ForeignSegment draft = thought.mapped(*master, projector, entries, own_ids);
  const auto laid = std::ssize(entries);
  const int64_t end = std::ssize(prompt) - kReread;
  MappedRows rows(stranger_.path(), *master, {prompt.begin(), prompt.begin() + end}, &projector);
  ForeignSegment transferred = rows.segment(4, end);
  transferred.lag = 0;
  lay(draft, std::ssize(prompt) - opening());
  const int64_t entry = 4 + kReread - opening();
  const SequencePlan plan{.own = {{0, 0}, {4, end - 4}, {entry, end - 4 + laid}},
                          .before = {transferred, draft},
                          .after = {}};
  for (size_t i = 0; i < scoring.continuations.size(); ++i) {
    std::vector<int32_t> ids(prompt.begin(), prompt.begin() + 4);
    ids.insert(ids.end(), prompt.begin() + end, prompt.end());
    EXPECT_EQ(logprobs(scoring)[i], logprobs_of(*master, plan, with(ids, scoring.continuations[i]),
                                                std::ssize(scoring.continuations[i].tokens)));
  }
}

// Every turn has a draft of its own, and is answered as if the earlier ones had had none.
TEST_F(DraftSystemTest, ADraftIsNoPartOfTheConversation) {
  const auto talk = [&](Launch& launch) {
    std::vector<Answer> turns;
    AskOptions options = question(10);
    options.conversation = launch.open_conversation({})->id;
    turns.push_back(ask(launch, options));
    options.text = "and when does it end";
    turns.push_back(ask(launch, options));
    return turns;
  };
  const auto launch = start(with_draft("gain = 0"), master_);
  const std::vector<Answer> turns = talk(*launch);
  EXPECT_EQ(turns[0].token_ids, ask(*launch, 10).token_ids);
  ASSERT_EQ(turns[1].drafts.size(), 1u);
  // The answer and the tokens that open it are read again, without the draft.
  const ProcessFigures& master = turns[1].figures.at(0);
  EXPECT_EQ(master.reused_tokens, turns[0].prompt_tokens - opening());
  const auto in_process = start(with_draft("gain = 0"), master_, "", "placement = \"in-process\"");
  const std::vector<Answer> same = talk(*in_process);
  for (size_t i = 0; i < turns.size(); ++i) {
    EXPECT_EQ(same[i].token_ids, turns[i].token_ids);
    EXPECT_EQ(same[i].drafts.at(0).token_ids, turns[i].drafts.at(0).token_ids);
  }
}

// A draft that takes so long that something can happen meanwhile.
class LongDraftTest : public DraftSystemTest {
 protected:
  static constexpr int64_t kLong = 4096;

  const TemporaryFile talker_{mapping_talker()};
};

TEST_F(LongDraftTest, ASlaveThatIsKilledWhileItDraftsIsLeftOut) {
  const auto alone = ask(*start("", master_), 24).token_ids;
  const auto launch = start(with_draft("gain = 0", kLong), talker_, "", "restarts = 0");
  const auto answer = ask_while_slave_speaks(*launch, question(24), [&] { kill_slave(*launch); });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->token_ids, alone);
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "s");
  EXPECT_EQ(answer->degraded[0].token, 0);
  EXPECT_TRUE(answer->drafts.empty());
}

TEST_F(LongDraftTest, OnFailureFailEndsTheRequest) {
  const auto launch =
      start(with_draft("gain = 0", kLong), talker_, "on_failure = \"fail\"\n", "restarts = 0");
  const auto answer = ask_while_slave_speaks(*launch, question(8), [&] { kill_slave(*launch); });
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kLost) << answer.error().message();
}

TEST_F(LongDraftTest, CancellingEndsTheDraft) {
  const auto launch = start(with_draft("gain = 0", kLong), talker_);
  std::atomic<bool> cancelled = false;
  const auto answer = ask_while_slave_speaks(
      *launch, question(8), [&] { cancelled = true; }, cancelled);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->reason, FinishReason::kCancelled);
  EXPECT_TRUE(answer->token_ids.empty());
  EXPECT_TRUE(answer->drafts.empty());
  EXPECT_LT(answer->figures.at(1).decoded_tokens, kLong);
}

TEST_F(LongDraftTest, ADeadlineEndsTheDraft) {
  const auto launch = start(with_draft("gain = 0", kLong), talker_);
  AskOptions options = question(8);
  options.deadline_seconds = 0.1;
  const Answer answer = ask(*launch, options);
  EXPECT_EQ(answer.reason, FinishReason::kDeadline);
  EXPECT_TRUE(answer.token_ids.empty());
  EXPECT_TRUE(answer.drafts.empty());
  EXPECT_LT(answer.figures.at(1).decoded_tokens, kLong);
}

}  // namespace
}  // namespace suture
