"""System call numbers of the confined child, by what the confinement does with each.

Numbers are facts of the kernel: x86_64 from `asm/unistd_64.h`, aarch64 from `asm-generic/unistd.h`;
None where an architecture has no such call. The aarch64 column has not been run on such a machine.
"""

from __future__ import annotations

import os

Numbers = dict[str, tuple[int | None, int | None]]  # name -> (x86_64, aarch64)

# Whatever a pure computation with threads, timers and pipes needs, and nothing that names another
# process or a file. uname is missing on purpose: it tells the host's name. So are sysinfo, which
# tells its load, and membarrier, which interrupts every core of the machine.
ALLOWED: Numbers = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "pause": (34, None),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "getcwd": (79, 17),
    "umask": (95, 166),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "getpgrp": (111, None),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "restart_syscall": (219, 128),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "epoll_ctl": (233, 21),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "poll": (7, None),
    "select": (23, None),
    "set_robust_list": (273, 99),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "getrandom": (318, 278),
    "rseq": (334, 293),
    "close_range": (436, 436),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
}

# Everything that names a path: refused with EACCES, which Python tells as PermissionError.
PATHS: Numbers = {
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents": (78, None),
    "getdents64": (217, 61),
    "chdir": (80, 49),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "truncate": (76, 45),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchownat": (260, 54),
    "statfs": (137, 43),
}

# Decided by their arguments; confinement.py holds one rule for each.
JUDGED: Numbers = {
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "clone": (56, 220),
    "clone3": (435, 435),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
}

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What seccomp sees as the calling convention; a call by another one (int 0x80) has other numbers.
"""

ARCHITECTURE = os.uname().machine


def numbers(table: Numbers) -> dict[str, int]:
    """Return name -> number on this machine; empty where the architecture is not known."""
    if ARCHITECTURE not in AUDIT_ARCHITECTURE:
        return {}
    column = 0 if ARCHITECTURE == "x86_64" else 1
    return {name: row[column] for name, row in table.items() if row[column] is not None}  # type: ignore[misc]
