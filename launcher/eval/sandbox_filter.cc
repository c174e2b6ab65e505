#include "launcher/eval/sandbox_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace suture {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;  // the C library tries an older call

// From this number on all architectures share theirs: pidfd_send_signal, io_uring, mounts by file
// descriptor, clone3 (whose flags no filter can read), openat2, and what future kernels add.
constexpr uint32_t kFirstNewCall = 424;

// Refused whatever their arguments are.
constexpr uint32_t kRefusedCalls[] = {
    // Network, and sockets of the machine's services
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    // Other processes
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_setpgid,
    SYS_setsid,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_sched_setaffinity,
    SYS_setpriority,
    SYS_ioprio_set,
    // Files
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_symlinkat,
    SYS_linkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_truncate,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    // The system
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_userfaultfd,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_quotactl,
    SYS_setuid,
    SYS_setgid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
    SYS_setrlimit,
    SYS_fanotify_init,
    // Memory that outlives the process or is not counted as its own
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_memfd_create,
#if defined(__x86_64__)
    // Calls that newer architectures never had
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_unlink,
    SYS_rmdir,
    SYS_mkdir,
    SYS_mknod,
    SYS_symlink,
    SYS_link,
    SYS_rename,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

constexpr uint32_t kWritingFlags = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

constexpr uint32_t low_half(int argument) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * static_cast<uint32_t>(argument);
}

sock_filter load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter verdict(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }

// The next `skip` instructions are left out if the condition does not hold.
sock_filter unless_equal(uint32_t value, uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}
sock_filter unless_bits(uint32_t bits, uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip);
}
sock_filter unless_at_least(uint32_t value, uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, skip);
}

// Each rule finds the call's number in the accumulator and leaves it there, or ends.
class Rules {
 public:
  void refuse(uint32_t call) { add({unless_equal(call, 1), verdict(kRefuse)}); }
  void refuse_if_bits(uint32_t call, int argument, uint32_t bits) {
    add({unless_equal(call, 4), load(low_half(argument)), unless_bits(bits, 1), verdict(kRefuse),
         verdict(SECCOMP_RET_ALLOW)});
  }
  void refuse_unless_bits(uint32_t call, int argument, uint32_t bits) {
    add({unless_equal(call, 4), load(low_half(argument)), unless_bits(bits, 1),
         verdict(SECCOMP_RET_ALLOW), verdict(kRefuse)});
  }
  // A pointer is there unless both halves are 0.
  void refuse_if_pointer(uint32_t call, int argument) {
    add({unless_equal(call, 6), load(low_half(argument)), unless_equal(0, 3),
         load(low_half(argument) + 4), unless_equal(0, 1), verdict(SECCOMP_RET_ALLOW),
         verdict(kRefuse)});
  }
  void refuse_unless_one_of(uint32_t call, int argument, std::initializer_list<uint32_t> values) {
    add({unless_equal(call, static_cast<uint8_t>(2 * values.size() + 2)),
         load(low_half(argument))});
    for (const uint32_t value : values) add({unless_equal(value, 1), verdict(SECCOMP_RET_ALLOW)});
    add({verdict(kRefuse)});
  }
  void add(std::initializer_list<sock_filter> instructions) {
    filter_.insert(filter_.end(), instructions);
  }
  std::vector<sock_filter> take() { return std::move(filter_); }

 private:
  std::vector<sock_filter> filter_;
};

}  // namespace

Result<std::vector<sock_filter>> make_sandbox_filter() {
  if (kArchitecture == 0)
    return fail(ErrorCode::kUnsupported, "no sandbox for this kind of processor", "sandbox",
                "evaluate code on x86-64 or arm64");
  Rules rules;
  rules.add({load(offsetof(seccomp_data, arch)),
             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
             verdict(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr)),
             unless_at_least(kFirstNewCall, 1), verdict(kUnknown)});
  for (const uint32_t call : kRefusedCalls) rules.refuse(call);
  rules.refuse_if_bits(SYS_openat, 2, kWritingFlags);
#if defined(__x86_64__)
  rules.refuse_if_bits(SYS_open, 1, kWritingFlags);
#endif
  rules.refuse_unless_bits(SYS_clone, 0, CLONE_THREAD);
  // Others change attributes of files, or type into terminals.
  rules.refuse_unless_one_of(SYS_ioctl, 1, {FIOCLEX, FIONCLEX, TCGETS});
  rules.refuse_if_pointer(SYS_prlimit64, 2);
  rules.add({verdict(SECCOMP_RET_ALLOW)});
  return rules.take();
}

bool enter_sandbox_filter(const std::vector<sock_filter>& filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace suture
