#pragma once

#include <string>

#include "base/error.h"

namespace suture {

// What every process of a launch must show to its broker: 256 random bits, as hexadecimal digits.
Result<std::string> random_launch_secret();

}  // namespace suture
