// What a stage has shown, for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/load/process_watch.h"
#include "bench/load/stage.h"

namespace suture {

struct StageReport {
  double seconds = 0;  // from the first question to the last answer
  std::vector<ClientTally> clients;
  std::vector<ProcessHistory> processes;
  std::vector<std::string> faults;  // those of the clients and what was left behind
};

// What only all clients together show: a client that was starved, memory that grows. Growth is
// judged in stages of ten minutes and more, where it can be told from caches that fill.
std::vector<std::string> faults_of(const StageReport& report);

std::string stage_table(const StageReport& report);
nlohmann::json to_json(const StageReport& report);

}  // namespace suture
