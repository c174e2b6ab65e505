// What this process holds, for tests that nothing of it is lost.
#pragma once

#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>

namespace suture {

struct ProcessUse {
  long descriptors = 0;
  long threads = 0;

  friend bool operator<=(const ProcessUse& a, const ProcessUse& b) {
    return a.descriptors <= b.descriptors && a.threads <= b.threads;
  }
  friend std::ostream& operator<<(std::ostream& out, const ProcessUse& use) {
    return out << use.descriptors << " descriptors, " << use.threads << " threads";
  }
};

inline ProcessUse process_use() {
  const auto entries = [](const char* folder) {
    return static_cast<long>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  return {entries("/proc/self/fd"), entries("/proc/self/task")};
}

// What it holds once it holds no more than `before`, or after a minute: other threads may still be
// busy with closing.
//   EXPECT_LE(settled_use(before), before);
inline ProcessUse settled_use(const ProcessUse& before) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  ProcessUse use = process_use();
  while (!(use <= before) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    use = process_use();
  }
  return use;
}

}  // namespace suture
