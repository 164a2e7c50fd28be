"""Kernel records that begin with text that a user chose.

Facility 0 means that the kernel wrote a record, not that it chose the text: it prints names of
processes (15 bytes of any kind), of files (255 bytes) and of network devices, mount options, and
prefixes of netfilter rules. A rule matches a whole record from its first byte (rules.py), so
such text matters only at the start of a record. These records are known and dropped before any rule
is applied: a second protection behind the anchored rules (decision 023).

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
"""A process name, then text of the kernel that is longer than a second name, so that a process cannot
hide a record by its name; or the name of a network device, which contains no blank.
"""

_IN_FILE = " in "
"""The end of a segfault record that printk did not join (KERN_CONT): the name of a file."""

_NETFILTER = re.compile(
    r"IN=\S{0,15} OUT=\S{0,15}(?: PHYSIN=\S{0,15})?(?: PHYSOUT=\S{0,15})? ?"
    r"(?: ?MAC=(?:[0-9a-f]{2}:){5}| ?MAC= (?:SRC=|ARP |$)| ?MAC source = | ?MACSRC=| ?SRC=[0-9a-f.:]{3,39} DST="
    r"| ?ARP HTYPE=)|IN=\S{0,15} OUT=\S{0,15} $"
)
"""A netfilter log rule prints a prefix of up to 127 bytes at any level. Users may write such rules in
a network namespace of their own; the kernel prints them if net.netfilter.nf_log_all_netns is 1. The
pattern is longer than a process name, or ends the record, so that a name in a driver's record
cannot hide that record.
"""


def begins_with_user_text(text: str) -> bool:
    """True for a record whose start a user can choose. No driver reports a fault in these formats."""
    return bool(
        _NAME_FIRST.match(text)
        or text.startswith(_IN_FILE)
        or ("IN=" in text and _NETFILTER.search(text))
    )
