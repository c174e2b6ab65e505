// What the launcher hands a worker process when it starts it: a memory file that only the two of
// them can open, so that the secret appears in no command line and no environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "actors/model_service.h"
#include "actors/tls_identity.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

struct WorkerTicket {
  std::string broker_address;
  std::string secret;
  uint16_t coordinator_port = 0;  // on 127.0.0.1
  int certificate_fd = -1;
  int key_fd = -1;
  pid_t launcher = 0;  // whose child the worker is
  ModelLoad load;
};

Result<UniqueFd> write_ticket(const WorkerTicket& ticket);
// kCorrupt names the field that is missing or of the wrong type.
Result<WorkerTicket> read_ticket(int fd);

}  // namespace suture
