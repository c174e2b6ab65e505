#include "launcher/doctor.h"

#include <gtest/gtest.h>

#include <set>

#include "base/test_folder.h"

namespace suture {
namespace {

const DoctorLine& line(const std::vector<DoctorLine>& lines, std::string_view subject) {
  for (const DoctorLine& line : lines)
    if (line.subject == subject) return line;
  ADD_FAILURE() << "no line about " << subject;
  return lines.front();
}

TEST(DoctorTest, EverySubjectHasOneLineAndTroubleHasARemedy) {
  const TestFolder folder;
  std::set<std::string> subjects;
  for (const DoctorLine& line : examine_computer(folder.path())) {
    EXPECT_TRUE(subjects.insert(line.subject).second) << line.subject;
    EXPECT_FALSE(line.found.empty()) << line.subject;
    EXPECT_EQ(line.remedy.empty(), line.state == DoctorLine::State::kOk) << line.subject;
  }
  EXPECT_EQ(subjects.size(), 9u);
}

TEST(DoctorTest, WhatTheBusNeedsWorksHere) {
  const TestFolder folder;
  const auto lines = examine_computer(folder.path());
  EXPECT_EQ(line(lines, "shared memory").state, DoctorLine::State::kOk);
  EXPECT_EQ(line(lines, "pidfd").state, DoctorLine::State::kOk);
}

TEST(DoctorTest, ACacheThatDoesNotExistYetIsFineAndIsNotCreated) {
  const TestFolder folder;
  const auto cache = folder.path() / "not" / "yet";
  EXPECT_EQ(line(examine_computer(cache), "model cache").state, DoctorLine::State::kOk);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "not"));
}

TEST(DoctorTest, ACacheBelowAFileFails) {
  const TestFolder folder;
  const auto file = folder.write("file", "");
  EXPECT_EQ(line(examine_computer(file / "models"), "model cache").state, DoctorLine::State::kFail);
}

}  // namespace
}  // namespace suture
