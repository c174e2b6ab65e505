// For tests of the coordinator: a launch of three models as plain data, and what models say.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator.h"

namespace suture::coordinator_test {

inline ModelSpec model(const std::string& name, Role role, SlavePosition position) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.fusion.position = position;
  return spec;
}

// A master with head {1, 2}, a document reader and an aligned slave.
inline CoordinatorSetup setup() {
  CoordinatorSetup setup;
  setup.spec.models = {model("m", Role::kMaster, SlavePosition::kAligned),
                       model("doc", Role::kSlave, SlavePosition::kPrefix),
                       model("twin", Role::kSlave, SlavePosition::kAligned)};
  setup.contexts = {{"m", {1, 2}}, {"doc", {1, 2, 30, 31, 32}, 2, {0}}, {"twin", {}, 0, {0}}};
  setup.master_layers = 1;
  setup.master_positions = 1000;
  setup.end_ids = {0};
  return setup;
}

inline Question question_of(uint64_t request, std::vector<int32_t> tail = {7, 8, 9}) {
  return {.request = request,
          .tail_ids = std::move(tail),
          .max_tokens = 5,
          .sampling = {},
          .ring = "answer/" + std::to_string(request)};
}

inline Question question() { return question_of(1); }

template <typename T>
std::vector<std::pair<std::string, T>> of_type(const std::vector<Outgoing>& messages) {
  std::vector<std::pair<std::string, T>> found;
  for (const auto& [name, message] : messages)
    if (const T* payload = std::get_if<T>(&message)) found.push_back({name, *payload});
  return found;
}

inline ReadOpened opened(uint64_t key, const std::string& owner) {
  return {.key = key, .outcome = {}, .stream = {owner, 3, 77, {'x'}}};
}

inline ReadDone read_done(uint64_t key, const std::string& name) {
  ReadDone done;
  done.key = key;
  done.figures.name = name;
  done.figures.prompt_tokens = 5;
  return done;
}

class CoordinatorTest : public testing::Test {
 protected:
  // Joins everybody; remembers the keys of the contexts.
  void join_all() {
    EXPECT_TRUE(coordinator_.joined("m").empty());
    EXPECT_TRUE(coordinator_.joined("twin").empty());
    const auto reads = of_type<ReadRequest>(coordinator_.joined("doc"));
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_EQ(reads[0].first, "m");
    EXPECT_EQ(reads[1].first, "doc");
    EXPECT_EQ(reads[1].second.token_ids.size(), 5u);
    master_key_ = reads[0].second.key;
    doc_key_ = reads[1].second.key;
  }

  // Asks; remembers the aligned slave's key.
  void ask(Question asked = question()) {
    const auto reads = of_type<ReadRequest>(coordinator_.ask(std::move(asked)));
    ASSERT_EQ(reads.size(), 1u);
    EXPECT_EQ(reads[0].first, "twin");
    EXPECT_EQ(reads[0].second.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
    EXPECT_EQ(reads[0].second.capacity, 10);
    EXPECT_EQ(reads[0].second.follow_ring, "answer/1");
    twin_key_ = reads[0].second.key;
  }

  GenerateRequest start() {
    EXPECT_TRUE(coordinator_.read_opened("m", opened(master_key_, "m")).empty());
    EXPECT_TRUE(coordinator_.read_opened("doc", opened(doc_key_, "doc")).empty());
    const auto out =
        of_type<GenerateRequest>(coordinator_.read_opened("twin", opened(twin_key_, "twin")));
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? GenerateRequest{} : out[0].second;
  }

  Coordinator coordinator_{setup()};
  uint64_t master_key_ = 0;
  uint64_t doc_key_ = 0;
  uint64_t twin_key_ = 0;
};

}  // namespace suture::coordinator_test
