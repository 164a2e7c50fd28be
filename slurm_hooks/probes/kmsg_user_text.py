"""Kernel records that begin with what a user chose: the second wall behind the anchored forms of the rules.

Facility 0 says that the kernel wrote a record, not that the kernel chose its words: it prints the names of
processes (15 bytes of any kind), of files (255) and of network devices, mount options, prefixes of netfilter rules.
A rule matches a whole record from its first byte on (kmsg_rules.py), so such text counts only where it stands first.
Where that is so is known, and these records are dropped before any rule sees them (decision 023).

Forms: Linux 4.18 to 6.18 (arch/x86/mm/fault.c, arch/*/kernel/{signal,traps}.c, mm/oom_kill.c, mm/page_alloc.c,
net/core/dev.c, net/netfilter/nf_log_syslog.c, net/bridge/netfilter/ebt_log.c).
"""

from __future__ import annotations

import re

_NAME_FIRST = re.compile(
    r".{0,15}(?:"
    r"\[\d+\]: (?:segfault at |unhandled exception|undefined instruction)"
    r"|\[\d+\] bad frame in "
    r"| invoked oom-killer: "
    r"|: (?:page allocation|vmalloc error:|vmalloc: allocation failure|using deprecated syscall)"
    r"|/\d+: potentially unexpected fatal signal"
    r"| \(\d+\)(?:: (?:attempted to duplicate|drop_caches)| uses deprecated )"
    r"| uses obsolete \(PF_INET"
    r")"
    r"|\S{0,15}: (?:renamed from|entered|left|port \d+\()",
    re.S,
)
"""The name of a process, then words of the kernel that are longer than a second name, which could hide its own line
here; or the name of a network device, which holds no blank."""

_IN_FILE = " in "
"""The end of a segfault's line that printk could not join to its record (KERN_CONT): a file's name."""

_NETFILTER = re.compile(
    r"IN=\S{0,15} OUT=\S{0,15}(?: PHYSIN=\S{0,15})?(?: PHYSOUT=\S{0,15})? ?"
    r"(?: ?MAC=(?:[0-9a-f]{2}:){5}| ?MAC= (?:SRC=|ARP |$)| ?MAC source = | ?MACSRC=| ?SRC=[0-9a-f.:]{3,39} DST="
    r"| ?ARP HTYPE=)|IN=\S{0,15} OUT=\S{0,15} $"
)
"""A netfilter log rule prints a prefix of up to 127 bytes at any level. A user may write such rules in a network
namespace of his own; the kernel prints them where net.netfilter.nf_log_all_netns is 1. What must be there is longer
than a process's name, or ends the record: no name in a driver's line can hide that line here."""


def begins_with_user_text(text: str) -> bool:
    """True for a record whose beginning a user can choose; no driver reports a fault in these forms."""
    return bool(
        _NAME_FIRST.match(text)
        or text.startswith(_IN_FILE)
        or ("IN=" in text and _NETFILTER.search(text))
    )
