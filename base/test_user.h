// Plays another user, where the tests run as root.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace suture {

inline bool can_play_another_user() { return ::geteuid() == 0; }

// Runs `play` as user 65534, which owns nothing. Only in a thread of its own: the system calls,
// unlike their functions in the C library, change the calling thread alone.
inline void as_another_user(const std::function<void()>& play) {
  constexpr long kNobody = 65534;
  std::thread([&play] {
    ::syscall(SYS_setgroups, 0, nullptr);
    ::syscall(SYS_setresgid, kNobody, kNobody, kNobody);
    ::syscall(SYS_setresuid, kNobody, kNobody, kNobody);
    play();
  }).join();
}

}  // namespace suture
