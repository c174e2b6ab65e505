#include "models/logits_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace suture {
namespace {

TEST(LogitsReaderTest, GivesSumsValuesAndTheBest) {
  const auto device = open_device("cpu", 1).value();
  const auto stream = device->make_stream().value();
  const std::vector<float> logits = {0.5f, 3, -2, 3, 1};
  LogitsReader reader = LogitsReader::create(*device, *stream, std::ssize(logits)).value();
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  EXPECT_FLOAT_EQ(reader.log_sum_exp(logits.data()).value(), static_cast<float>(std::log(sum)));
  EXPECT_EQ(reader.read(logits.data() + 2).value(), -2);
  using Best = std::vector<std::pair<int32_t, float>>;
  EXPECT_EQ(reader.top(logits.data(), 2).value(), (Best{{1, 3}, {3, 3}}));
  EXPECT_EQ(reader.top(logits.data(), 100).value().size(), logits.size());
}

}  // namespace
}  // namespace suture
