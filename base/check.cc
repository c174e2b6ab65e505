#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace suture {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", file, line, condition, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace suture
