// What this computer has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace suture {

// Memory that new processes can have without swapping, within the limit of the control group.
// Nearly unlimited if the system does not tell.
uint64_t available_memory_bytes();

// The value of "MemAvailable:   123 kB" in text like /proc/meminfo, in bytes.
std::optional<uint64_t> meminfo_bytes(std::string_view text, std::string_view field);

// Cores this process may run on.
int allowed_cores();

}  // namespace suture
