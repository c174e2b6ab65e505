// How much memory the machine and this process's control group have left.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace suture {

// kOutOfMemory, with needed and available sizes, if `bytes` bytes are not there. Asked before large
// allocations: for memory that is not there, the system may end processes instead of failing.
Status check_available_memory(const std::string& name, uint64_t bytes, std::string where,
                              std::string remedy = {});

// The same error, for an allocation that failed after all.
tl::unexpected<Error> no_memory(const std::string& name, uint64_t bytes, std::string where,
                                std::string remedy = {});

}  // namespace suture
