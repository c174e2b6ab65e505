#include "actors/worker_ticket.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string_view>

namespace suture {
namespace {

TEST(WorkerTicketTest, ComesBackAsWritten) {
  WorkerTicket ticket;
  ticket.broker_address = "suture-0011";
  ticket.secret = "s3cret";
  ticket.coordinator_port = 40123;
  ticket.certificate_fd = 7;
  ticket.key_fd = 8;
  ticket.launcher = 4711;
  ticket.load = {
      .name = "slave:a",
      .role = Role::kSlave,
      .path = "/models/a b.gguf",
      .threads = 2,
      .max_seq_len = 4096,
      .max_sequences = 3,
      .vocabularies = {{"master", "/models/b.gguf"}},
      .norms_of = "/models/b.gguf",
      .trace = true,
      .warm_up = false,
      .rope_scaling = RopeScalingOverride{RopeScaling::kYarn, 4, 32768},
      .rope_length = 65536,
      .rope_crossing = RopeCrossing::kReread,
      .projection = ProjectionLoad{.projector = "/models/a.suture",
                                   .other = "master",
                                   .other_path = "/models/b.gguf",
                                   .rope_scaling = RopeScalingOverride{RopeScaling::kLinear, 2, 0},
                                   .rope_length = 512,
                                   .force = true},
      .slave_projections = {{.projector = "/models/b.suture", .other = "b"},
                            {.projector = "/models/c.suture", .other = "c"}},
      .incarnation = 9};
  const auto fd = write_ticket(ticket);
  ASSERT_TRUE(fd.has_value());
  const auto back = read_ticket(fd->get());
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(back->secret, "s3cret");
  EXPECT_EQ(back->coordinator_port, 40123);
  EXPECT_EQ(back->key_fd, 8);
  EXPECT_EQ(back->launcher, 4711);
  EXPECT_EQ(back->load.incarnation, 9u);
  EXPECT_EQ(back->load.name, "slave:a");
  EXPECT_EQ(back->load.role, Role::kSlave);
  EXPECT_EQ(back->load.path, "/models/a b.gguf");
  EXPECT_EQ(back->load.max_seq_len, 4096);
  EXPECT_EQ(back->load.vocabularies, ticket.load.vocabularies);
  EXPECT_EQ(back->load.norms_of, "/models/b.gguf");
  EXPECT_TRUE(back->load.trace);
  EXPECT_FALSE(back->load.warm_up);
  EXPECT_EQ(back->load.rope_scaling, ticket.load.rope_scaling);
  EXPECT_EQ(back->load.rope_length, 65536);
  EXPECT_EQ(back->load.rope_crossing, RopeCrossing::kReread);
  ASSERT_TRUE(back->load.projection.has_value());
  EXPECT_EQ(back->load.projection->projector, "/models/a.suture");
  EXPECT_EQ(back->load.projection->other, "master");
  EXPECT_EQ(back->load.projection->other_path, "/models/b.gguf");
  EXPECT_EQ(back->load.projection->rope_scaling, ticket.load.projection->rope_scaling);
  EXPECT_EQ(back->load.projection->rope_length, 512);
  EXPECT_TRUE(back->load.projection->force);
  ASSERT_EQ(back->load.slave_projections.size(), 2u);
  EXPECT_EQ(back->load.slave_projections[1].other, "c");
  EXPECT_EQ(back->load.slave_projections[1].projector, "/models/c.suture");
  ticket.load.rope_scaling.reset();
  ticket.load.projection.reset();
  EXPECT_FALSE(read_ticket(write_ticket(ticket)->get())->load.projection.has_value());
  EXPECT_EQ(read_ticket(write_ticket(ticket)->get())->load.rope_scaling, std::nullopt);
}

TEST(WorkerTicketTest, NamesWhatIsWrong) {
  for (const std::string_view text : {"", "[]", "{}", "{\"broker\":1}", "{\"broker\":"}) {
    const UniqueFd fd(::memfd_create("t", 0));
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    const auto ticket = read_ticket(fd.get());
    ASSERT_FALSE(ticket.has_value()) << text;
    EXPECT_EQ(ticket.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_EQ(read_ticket(-1).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace suture
