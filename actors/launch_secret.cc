#include "actors/launch_secret.h"

#include <fmt/format.h>
#include <openssl/rand.h>

namespace suture {

Result<std::string> random_launch_secret() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1)
    return fail(ErrorCode::kIo, "no random bytes for the launch's secret", "launch");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace suture
