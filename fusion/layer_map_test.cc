#include "fusion/layer_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace suture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<int32_t>> map_of(std::string_view text, int32_t master, int32_t slave) {
  SUTURE_ASSIGN_OR_RETURN(const LayerMapSpec spec, parse_layer_map(text));
  EXPECT_EQ(layer_map_name(spec), text);
  return make_layer_map(spec, master, slave);
}

LayerMapSpec table(std::vector<int64_t> layers) {
  return {.kind = LayerMapSpec::Kind::kTable, .stride = 1, .table = std::move(layers)};
}

TEST(LayerMapTest, IdentityNeedsTheSameDepth) {
  EXPECT_THAT(map_of("identity", 4, 4).value(), ElementsAre(0, 1, 2, 3));
  const auto other = map_of("identity", 28, 24);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().what, HasSubstr("28"));
  EXPECT_THAT(other.error().what, HasSubstr("24"));
  EXPECT_THAT(other.error().remedy, HasSubstr("nearest"));
}

TEST(LayerMapTest, StrideGivesEveryNthLayerAPartner) {
  EXPECT_THAT(map_of("stride:2", 6, 3).value(), ElementsAre(0, -1, 1, -1, 2, -1));
  EXPECT_THAT(map_of("stride:3", 4, 8).value(), ElementsAre(0, -1, -1, 1));
  EXPECT_THAT(map_of("stride:1", 2, 2).value(), ElementsAre(0, 1));
  const auto short_slave = map_of("stride:2", 28, 12);
  ASSERT_FALSE(short_slave);
  EXPECT_THAT(short_slave.error().what, HasSubstr("layer 24 takes layer 12"));
}

// The partner is the layer whose relative depth is nearest, by trying them all.
TEST(LayerMapTest, NearestIsNearestInRelativeDepth) {
  for (int32_t master = 1; master <= 30; ++master) {
    for (int32_t slave = 1; slave <= 30; ++slave) {
      const auto map = map_of("nearest", master, slave).value();
      ASSERT_EQ(std::ssize(map), master);
      const auto distance = [&](int32_t l, int32_t k) {
        const double depth = master == 1 ? 1.0 : static_cast<double>(l) / (master - 1);
        return std::abs(depth - (slave == 1 ? 1.0 : static_cast<double>(k) / (slave - 1)));
      };
      for (int32_t l = 0; l < master; ++l)
        for (int32_t k = 0; k < slave; ++k)
          ASSERT_LE(distance(l, map[static_cast<size_t>(l)]), distance(l, k) + 1e-12)
              << master << " " << slave << " layer " << l;
    }
  }
}

TEST(LayerMapTest, LastToLastCountsFromTheEnd) {
  EXPECT_THAT(map_of("last-to-last", 5, 3).value(), ElementsAre(-1, -1, 0, 1, 2));
  EXPECT_THAT(map_of("last-to-last", 3, 5).value(), ElementsAre(2, 3, 4));
}

TEST(LayerMapTest, TableIsTakenAsItIsAndChecked) {
  EXPECT_THAT(make_layer_map(table({2, -1, 0, 0}), 4, 3).value(), ElementsAre(2, -1, 0, 0));
  for (const auto& bad : {table({0, 1}), table({0, 3, 0, 0}), table({0, -2, 0, 0}),
                          table({-1, -1, -1, -1}), table({0, 1, 2, int64_t{1} << 32})}) {
    const auto map = make_layer_map(bad, 4, 3);
    ASSERT_FALSE(map);
    EXPECT_EQ(map.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(map.error().what, HasSubstr("layer_map \"table\""));
  }
  EXPECT_THAT(make_layer_map(table({0, 3, 0, 0}), 4, 3).error().what,
              HasSubstr("layer 1 takes layer 3 of the slave, which has 3"));
}

TEST(LayerMapTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const char* text : {"", "Identity", "stride", "stride:", "stride:0", "stride:-1",
                           "stride:2x", "stride:99999999999999999999", "last"}) {
    const auto spec = parse_layer_map(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_THAT(parse_layer_map("closest").error().what, HasSubstr("last-to-last"));
}

}  // namespace
}  // namespace suture
