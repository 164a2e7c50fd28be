"""Records of the kernel that carry text of a user's: each form, and names made of the lines of real
faults.

The forms are those of Linux 4.18 to 6.18. ``{comm}`` is a process's name (at most 15 bytes),
``{file}`` a file name (255), ``{text}`` any other text: a mount option, a prefix of a netfilter
rule, the path of a cgroup, a network device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.slurm_hooks.kernel_lines import blocks

COMM_BYTES, FILE_BYTES, PREFIX_BYTES, DEVICE_BYTES = 15, 255, 127, 15
"""TASK_COMM_LEN, NAME_MAX, NF_LOG_PREFIXLEN and IFNAMSIZ of the kernel, without the byte that ends
each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One printk of the kernel. ``codes``: of the events that it may honestly become."""

    level: int
    text: str
    source: str
    codes: frozenset[str] = frozenset()

    def with_name(self, name: str) -> str:
        """As the kernel writes it where the user chose this name."""
        return (
            self.text.replace("{comm}", _cut(name, COMM_BYTES))
            .replace("{file}", _cut(name.replace("/", "_"), FILE_BYTES))
            .replace("{prefix}", _cut(name, PREFIX_BYTES))
            .replace("{device}", _device(name))
            .replace("{cgroup}", _cut(name.replace("/", "_").replace("\n", " "), FILE_BYTES))
            .replace("{text}", name)
        )


def _cut(name: str, most: int) -> str:
    return name.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _device(name: str) -> str:
    """dev_valid_name(): no blanks, slashes and colons."""
    return _cut("".join(c for c in name if not c.isspace() and c not in "/:"), DEVICE_BYTES)


_OOM = frozenset({"OOM_JOB", "OOM_SYSTEM"})
_HUNG = frozenset({"HUNG_TASK"})


def _form(level: int, text: str, source: str, codes: frozenset[str] = frozenset()) -> Form:
    return Form(level=level, text=text, source=source, codes=codes)


FORMS: tuple[Form, ...] = (
    # the name stands first
    _form(6, "{comm}[4242]: segfault at 0 ip 000055acc5adf1bc sp 00007fff313b47c0 error 6 in "
          "{file}[11bc,55acc5adf000+1000] likely on CPU 0 (core 0, socket 0)", "x86 show_signal_msg"),
    _form(6, "{comm}[4242]: segfault at 0 ip 000055acc5adf1bc sp 00007fff313b47c0 error 6 in "
          "{file}[55acc5adf000+1000]", "x86 show_signal_msg, 4.18"),
    _form(0, "{comm}[1]: segfault at 0 ip 000055acc5adf1bc sp 00007fff313b47c0 error 6", "x86, of an init"),
    _form(6, "{comm}[4242] bad frame in rt_sigreturn frame:00007ffd ip:7f01 sp:7ffd orax:0 in {file}[7f00+1000]",
          "x86 signal_fault"),
    _form(6, "{prefix}IN={device} OUT= ", "net/netfilter/nf_log, of no known protocol"),
    _form(6, "{comm}[4242] vsyscall attempted with vsyscall=none ip:ffffffffff600000 cs:33 sp:7ffd ax:0",
          "x86 vsyscall"),
    _form(6, "{comm}[4242]: unhandled exception: ESR 0x92000046, in {file}[400000+1000]", "arm64"),
    _form(4, "{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", "mm/oom_kill.c"),
    _form(4, "{comm}: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null),"
          "cpuset={cgroup},mems_allowed=0-1", "mm/page_alloc.c"),
    _form(4, "{comm}: vmalloc error: size 4096, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)", "mm/vmalloc.c"),
    _form(4, "{comm} (4242): attempted to duplicate a private mapping with mremap.  This is not supported.",
          "mm/mremap.c"),
    _form(4, "{comm} (4242) uses deprecated remap_file_pages() syscall. See Documentation/mm/remap_file_pages.rst.",
          "mm/mmap.c, older"),
    _form(6, "{comm} uses obsolete (PF_INET,SOCK_PACKET)", "net/packet"),
    _form(6, "{comm}/4242: potentially unexpected fatal signal 11.", "print-fatal-signals, older"),
    _form(6, "{comm} (4242): drop_caches: 3", "fs/drop_caches.c"),
    _form(4, "{comm}: using deprecated syscall 4242", "older"),
    _form(6, "{device}: renamed from {device}", "net/core/dev.c"),
    _form(6, "{device}: entered promiscuous mode", "net/core/dev.c"),
    _form(6, "{device}: port 1({device}) entered blocking state", "net/bridge"),
    _form(6, "{device} speed is unknown, defaulting to 1000", "drivers/net"),
    # a piece that printk could not join to its record (KERN_CONT)
    _form(4, " in {file}[55acc5adf000+1000]", "print_vma_addr, alone"),
    _form(4, " in {file}[11bc,55acc5adf000+1000]", "print_vma_addr, alone, 6.10 and newer"),
    # any level and a long head: netfilter's log, where net.netfilter.nf_log_all_netns is 1
    *(
        _form(level, "{prefix}IN={device} OUT=eth0 " + rest, "net/netfilter/nf_log")
        for level in (0, 2, 3, 4, 6)
        for rest in (
            "SRC=10.0.0.1 DST=10.0.0.2 LEN=84 TOS=0x00 PREC=0x00 TTL=64 ID=1 DF PROTO=ICMP TYPE=8 CODE=0 ID=1 SEQ=1 ",
            "MAC=0a:0b:0c:0d:0e:0f:0a:0b:0c:0d:0e:0f:08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=84 ",
            "MACSRC=0a:0b:0c:0d:0e:0f MACDST=0a:0b:0c:0d:0e:0f MACPROTO=0800 ARP HTYPE=1 PTYPE=0x0800 OPCODE=1",
            "ARP HTYPE=1 PTYPE=0x0800 OPCODE=1 MACSRC=0a:0b:0c:0d:0e:0f IPSRC=10.0.0.1",
            "PHYSIN=a PHYSOUT=b SRC=fe80::1 DST=fe80::2 LEN=104 TC=0 HOPLIMIT=64 FLOWLBL=0 PROTO=UDP SPT=1 DPT=2 ",
        )
    ),
    _form(4, "{prefix} IN=a OUT=b MAC source = 0a:0b:0c:0d:0e:0f MAC dest = 0a:0b:0c:0d:0e:0f proto = 0x0800",
          "net/bridge/netfilter/ebt_log"),
    # the name stands later
    _form(6, "traps: {comm}[4242] general protection fault ip:55b33a533183 sp:7ffc3aafcc80 error:0 in "
          "{file}[1183,55b33a533000+1000]", "x86 show_signal"),
    _form(6, "traps: {comm}[4242] trap invalid opcode ip:5560e3f8219c sp:7ffe0f80f7c0 error:0 in {file}[119c,1+1000]",
          "x86 show_signal"),
    _form(4, "umip: {comm}[4242] ip:7f01 sp:7ffd: SGDT instruction cannot be used by applications.", "x86 umip"),
    _form(4, "x86/split lock detection: #AC: {comm}/4242 took a split_lock trap at address: 0x401136", "x86"),
    _form(4, "process '{text}' launched '{text}' with NULL argv: empty string added", "fs/exec.c"),
    _form(4, "process `{comm}' is using deprecated sysctl (syscall) net.ipv6.neigh.lo.base_reachable_time.", "sysctl"),
    _form(4, "warning: `{comm}' uses 32-bit capabilities (legacy support in use)", "kernel/capability.c"),
    _form(4, "netlink: 4 bytes leftover after parsing attributes in process `{comm}'.", "lib/nlattr.c"),
    _form(6, "potentially unexpected fatal signal 11.", "print-fatal-signals"),
    _form(4, "CPU: 3 UID: 2002 PID: 4242 Comm: {comm} Tainted: P           OE      6.14.0 #1", "dump_stack"),
    _form(5, "audit: type=1701 audit(1.2:3): auid=2002 uid=2002 pid=4242 comm=\"{comm}\" exe=\"/tmp/{text}\" sig=11",
          "kernel/audit.c"),
    _form(6, "coredump: 4242({comm}): over core_pipe_limit", "fs/coredump.c"),
    _form(4, "Process 4242({comm}) has RLIMIT_CORE set to 1", "fs/coredump.c, older"),
    _form(5, "ptrace attach of \"{text}\"[4242] was attempted by \"{text}\"[4243]", "security/yama"),
    _form(3, "tmpfs: Unknown parameter '{text}'", "fs/fs_parser.c"),
    _form(3, "fuse: Bad value for '{text}'", "fs/fs_parser.c"),
    _form(3, "overlayfs: failed to resolve '{text}': -2", "fs/overlayfs"),
    _form(4, "FAT-fs (loop0): Unrecognized mount option \"{text}\" or missing value", "fs/fat"),
    _form(6, "cgroup: fork rejected by pids controller in /user.slice/{cgroup}", "kernel/cgroup/pids.c"),
    _form(6, "Memory cgroup stats for /user.slice/{cgroup}:", "mm/memcontrol.c"),
    _form(6, "Tasks in /user.slice/{cgroup} are going to be killed due to memory.oom.group set", "mm/oom_kill.c"),
    _form(6, "[   4242]  2002  4242    12345      678     4096        0             0 {comm}", "mm/oom_kill.c"),
    _form(6, "task:{comm}        state:D stack:0     pid:4242  tgid:4242  ppid:1      flags:0x00000006", "sched"),
    _form(6, "usb 1-1: Product: {text}", "drivers/usb/core"),
    _form(6, "input: {text} as /devices/virtual/input/input7", "drivers/input"),
    _form(6, "device-mapper: uevent: version 1.0.3 {text}", "drivers/md"),
    _form(3, "NVRM: API mismatch: the client '{comm}' (pid 4242)\nNVRM: has the version {text}, but\n"
          "NVRM: this kernel module has the version 580.105.08.", "NVIDIA driver"),
    _form(4, "EXT4-fs (loop0): last error at time 1700000000: {text}:1588: inode 43", "fs/ext4/super.c"),
    # what is an event, and means the task that it names
    _form(6, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={cgroup},mems_allowed=0,oom_memcg="
          "/user.slice/{cgroup},task_memcg=/user.slice/{cgroup},task={comm},pid=4242,uid=2002", "mm/oom_kill.c"),
    _form(3, "Memory cgroup out of memory: Killed process 4242 ({comm}) total-vm:3149468kB, anon-rss:164992kB, "
          "file-rss:52176kB, shmem-rss:92kB, UID:2002 pgtables:1372kB oom_score_adj:986", "mm/oom_kill.c", _OOM),
    _form(3, "Out of memory: Killed process 4242 ({comm}) total-vm:87033376kB, anon-rss:1kB", "mm/oom_kill.c", _OOM),
    _form(6, "oom_reaper: reaped process 4242 ({comm}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB", "oom_kill.c"),
    _form(3, "INFO: task {comm}:4242 blocked for more than 120 seconds.", "kernel/hung_task.c", _HUNG),
    _form(0, "watchdog: BUG: soft lockup - CPU#43 stuck for 26s! [{comm}:4242]", "kernel/watchdog.c",
          frozenset({"CPU_LOCKUP"})),
    _form(4, "NVRM: Xid (PCI:0000:53:00): 31, pid=4242, name={comm}, Ch 00000008, intr 00000000. MMU Fault: ENGINE "
          "GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f01_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
          "NVIDIA driver", frozenset({"XID31"})),
    _form(2, "EXT4-fs error (device loop7): ext4_lookup:1855: inode #2: comm {comm}: deleted inode referenced: 12",
          "fs/ext4", frozenset({"FS_ERROR"})),
)  # fmt: skip


def recorded() -> list[str]:
    """Every recorded line of a real fault (tests/data/kmsg)."""
    return [record.text for block in blocks() for record in block.records]


EXTRA = (
    "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:53:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "NVRM: Xid (PCI:0000:53:00): 45, caused by previous Xid 79",
    "0000:53:00.0: fallen off the bus",
    "BTRFS (device sda) forced readonly",
    "BTRFS info (device sda): forced readonly",
    "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
    "pcieport 0000:50:01.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
    "watchdog: Watchdog detected hard LOCKUP on cpu 12",
    "Oops: 0000 [#1] PREEMPT SMP NOPTI",
    "BUG: unable to handle page fault for address: ffffb06c8",
    "general protection fault: 0000 [#1] SMP",
    "{1}[Hardware Error]: event severity: fatal",
    "XFS (dm-1): log I/O error -5",
    "Memory failure: 0x6f1b2c: Killing x:1 due to hardware memory corruption",
    "x,pid=1,uid=0", "x,task_memcg=/system.slice/slurmstepd.scope/job_7/step_0,task=y",
    "job_7", "system.slice_slurmstepd.scope_job_7", "x (1) total-vm:0kB, anon-rss:0kB",
    "EDAC MC1: 1 UE ", "EDAC MC1: 1 UE", "BUG: Bad page x", "XFS (a): ", "nvme nvme0: I/O", "CPU: ", "Oops: 0000 [#1]",
    "x on y z", "I/O Error Detected. Shutting down filesystem", "a timeout, aborting", "health compromised",
    " os_acquire_rwlock_read+0x35/0x50 [nvidia]", " x+0x1/0x2 [nvi", " </TASK>", "</TASK>",
    "IN= OUT= ", "IN= OUT=", "IN= OUT= MACSRC", "IN= OUT= ARP ", "x: renamed from ",
    "x[1]: segfault a", " invoked oom-ki",
    "IN=a OUT= MAC= ", "x[1]: segfault ", "\x01c", "\x016NVRM", "\\x0a", "\x1b[31m", "[", "]: ", "",
)  # fmt: skip


def names() -> Iterator[str]:
    """What a hostile user calls things: the lines of faults, whole, from their middle, and behind a
    line's end."""
    for line in dict.fromkeys([*recorded(), *EXTRA]):
        yield line
        yield "\n" + line
        yield "x\n" + line + "\n"
        yield line + "\n "
        for cut in (15, 30):
            if len(line) > cut:
                yield line[cut:]
                yield line[cut - 15 : cut]
