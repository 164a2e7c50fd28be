"""Host, system and services, over folders made for it. The real /proc is not scanned."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.facts import DStateTask
from slurm_hooks.probes import host, services, system

# --- host -----------------------------------------------------------------------------------------

MEMINFO = (
    "MemTotal:  2113384388 kB\nMemAvailable: 2000000000 kB\nHugePages_Total:   4\nbad\nX: y kB\n"
)


def test_memory_load_and_disks(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "loadavg").write_text("1.50 2.25 3.00 2/900 4711\n")
    facts = host.read(tmp_path, [str(tmp_path), str(tmp_path / "none")])
    assert facts.memory_total_bytes == 2113384388 * 1024
    assert facts.memory_available_bytes == 2000000000 * 1024
    assert facts.load == (1.5, 2.25, 3.0)
    assert [disk.path for disk in facts.disks] == [str(tmp_path)]
    assert facts.disks[0].total_bytes > facts.disks[0].free_bytes > 0
    assert not facts.disks[0].read_only


def test_an_empty_procfs_gives_unknown_values(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("garbage\n")
    facts = host.read(tmp_path, [])
    assert (facts.memory_total_bytes, facts.load, facts.disks) == (None, None, ())


MOUNTINFO = """\
22 1 253:4 / / rw,relatime shared:1 - ext4 /dev/mapper/root rw,errors=remount-ro
23 22 0:31 / /proc rw - proc proc rw
24 22 0:40 / /mnt/b rw,noatime shared:5 master:7 - btrfs /dev/nvme9n9p9 rw,ssd
25 22 0:41 / /mnt/x\\040- rw - nfs4 10.0.0.5:/dev/sda rw,addr=10.0.0.5
26 22 0:42 / /tmp/bob/mnt rw,nosuid,nodev - fuse.sshfs /dev/dm-9 rw,user_id=2002,group_id=2002
27 22 0:43 / /tmp/bob/mnt2 rw,nosuid,nodev - fuse /dev/dm-9 rw,user_id=2002,group_id=2002
28 22 8:17 / /mnt/usb rw - fuseblk /dev/sdb1 rw,user_id=0,group_id=0
garbage - x
"""


def test_devices_that_are_mounted_have_the_kernels_names(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(MOUNTINFO)
    block = tmp_path / "sys/dev/block"
    block.mkdir(parents=True)
    (block / "253:4").symlink_to("../../devices/virtual/block/dm-4")
    facts = host.read(tmp_path, [], tmp_path / "sys")
    assert facts.mounted is not None
    assert facts.mounted >= {"dm-4", "nvme9n9p9", "sdb1"}
    assert "sda" not in facts.mounted
    assert "dm-9" not in facts.mounted, "bob chose the source of his FUSE mount"
    (tmp_path / "self/mountinfo").unlink()
    assert host.read(tmp_path, []).mounted is None


def test_the_kernels_clock_is_read() -> None:
    synced, error_s = host.kernel_clock()
    assert synced in (True, False)
    assert error_s is not None
    assert error_s >= 0


# --- system ---------------------------------------------------------------------------------------


def task(
    proc: Path, pid: int, name: str, state: str = "S", *, start: int = 7, threads: int = 1
) -> Path:
    """One process as proc(5) shows it: ``stat``, and the folder of its first thread."""
    fields = [state, *["0"] * 16, str(threads), "0", str(start), *["0"] * 30]
    text = f"{pid} ({name}) {' '.join(fields)}\n"
    folder = proc / str(pid) / "task" / str(pid)
    folder.mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(text)
    (folder / "stat").write_text(text)
    return folder


def asleep(folder: Path, *, switches: int = 12) -> None:
    (folder / "wchan").write_text("os_acquire_rwlock_write")
    (folder / "stack").write_text(
        "[<0>] os_acquire_rwlock_write+0x31/0x50 [nvidia]\n"
        "[<0>] nvidia_unlocked_ioctl+0x21/0x30 [nvidia]\n"
        "[<0>] do_syscall_64+0x71/0x280\n"
    )
    (folder / "status").write_text(
        f"Name:\tx\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    task(folder, 1, "systemd")
    task(folder, 40, "a) b (c")
    task(folder, 41, "dead", "Z", start=99)
    asleep(task(folder, 50, "python3", "D"))
    (folder / "uptime").write_text("4711.5 1.0\n")
    (folder / "self").mkdir()
    (folder / "60").mkdir()  # gone between the listing and the look
    return folder


def test_sleeping_tasks_zombies_and_names(proc: Path, tmp_path: Path) -> None:
    (facts,) = system.open_probe(proc, tmp_path)(None)
    (sleeper,) = facts.d_state_tasks
    assert (sleeper.pid, sleeper.name, sleeper.switches) == (50, "python3", 13)
    assert sleeper.in_driver
    assert sleeper.where == "os_acquire_rwlock_write < nvidia_unlocked_ioctl < do_syscall_64"
    assert facts.zombies == ((41, 99),)
    assert facts.uptime_s == 4711.5
    assert facts.modules is None
    assert not facts.cut
    assert set(system.walk(proc).names) == {"systemd", "a) b (c", "python3"}


@pytest.mark.parametrize(
    ("wchan", "stack", "driver"),
    [
        ("fuse_lock_inode", (), False),
        ("", ("rpc_wait_bit_killable+0x1f/0x90 [sunrpc]",), False),
        ("", ("down_read+0x1/0x2", "x+0x1/0x2 [nvidia_uvm]"), True),
        ("_nv036382rm", (), True),
        ("uvm_ioctl", (), True),
        ("nvme_wait", (), False),
        ("", (), False),
    ],
)
def test_which_tasks_sleep_in_the_driver(wchan: str, stack: tuple[str, ...], driver: bool) -> None:
    found = DStateTask(pid=1, tid=1, start=1, name="x", wchan=wchan, stack=stack)
    assert found.in_driver is driver


def test_a_thread_that_hangs_is_found_in_a_process_that_does_not(proc: Path) -> None:
    leader = task(proc, 70, "trainer", threads=2)
    hung = leader.parent / "71"
    hung.mkdir()
    stat = (proc / "70" / "stat").read_text()
    (hung / "stat").write_text(stat.replace("70 (trainer) S", "71 (nccl) D"))
    assert {(pid, tid) for pid, tid, _, _ in system.walk(proc).sleepers} == {(50, 50), (70, 71)}


def test_a_scan_is_bounded_and_the_next_one_continues(tmp_path: Path) -> None:
    for pid in range(1, 31):
        task(tmp_path, pid, f"p{pid}")
    first = system.walk(tmp_path, most=12)
    assert (first.looked, first.cut_at) == (12, 13)
    second = system.walk(tmp_path, first.cut_at, most=12)
    assert {"p13", "p24"} <= set(second.names)
    assert not set(first.names) & set(second.names)
    assert system.walk(tmp_path, 25, most=100).cut_at == 0


def test_loaded_modules(tmp_path: Path) -> None:
    for name, state in (("nvidia", "live"), ("nvidia_uvm", "going"), ("loop", None)):
        (tmp_path / "module" / name).mkdir(parents=True)
        if state:
            (tmp_path / "module" / name / "initstate").write_text(f"{state}\n")
    assert system.modules(tmp_path) == frozenset({"nvidia", "loop"})


# --- services -------------------------------------------------------------------------------------


def look(root: Path, *names: str, whole: bool = True) -> dict[str, tuple[bool | None, str]]:
    seen = services.Seen(names={name[:15]: 7 for name in names}, whole=whole)
    found = services.read(root / "proc", root / "sys", seen, root=str(root))
    return {service.name: (service.running, service.how) for service in found}


def process(folder: Path, program: str, uids: str = "0 0 0 0") -> None:
    """The files in /proc of a process with the name of a service."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text("Name:\tx\nUid:\t" + uids.replace(" ", "\t") + "\n")
    (folder / "exe").unlink(missing_ok=True)
    (folder / "exe").symlink_to(f"/usr/bin/{program}")


@pytest.mark.parametrize(
    ("program", "uids", "counts"),
    [
        ("nv-fabricmanager", "0 0 0 0", True),
        ("nv-fabricmanager (deleted)", "0 0 0 0", True),
        ("nv-fabricmanager", "112 112 112 112", True),
        ("nv-fabricmanager", "2002 2002 2002 2002", False),
        ("python3", "2002 2002 2002 2002", False),
        ("passwd", "2002 0 0 0", False),
        ("sudo", "0 0 0 0", False),
        ("nv-fabricmanager", "0 0", False),
    ],
)
def test_the_name_of_a_process_alone_does_not_make_it_a_service(
    program: str, uids: str, counts: bool, tmp_path: Path
) -> None:
    """A user's own, one in his namespace, a set-user-ID program that he started through a link."""
    task(tmp_path, 5, "nv-fabricmanage")
    process(tmp_path / "5", program, uids)
    task(tmp_path, 6, "sshd")
    assert system.walk(tmp_path).names == ({"nv-fabricmanage": 5} if counts else {}) | {"sshd": 6}


def test_a_false_process_does_not_hide_a_later_genuine_one(tmp_path: Path) -> None:
    for pid, uids in ((5, "2002 2002 2002 2002"), (6, "0 0 0 0")):
        task(tmp_path, pid, "nv-fabricmanage")
        process(tmp_path / str(pid), "nv-fabricmanager", uids)
    assert system.walk(tmp_path).names == {"nv-fabricmanage": 6}


@pytest.mark.parametrize("line_break", ["\r", "\v", "\f", "\x1c", "\x1e", "\x85", "\u2028"])
def test_no_name_of_a_process_is_read_as_its_user_ids(line_break: str, tmp_path: Path) -> None:
    """The pid file names a process that has exited; a user's process has got its pid."""
    note = tmp_path / "run/nvidia-fabricmanager/nv-fabricmanager.pid"
    note.parent.mkdir(parents=True)
    note.write_text("33\n")
    process(tmp_path / "proc/33", "nv-fabricmanager")
    status = f"Name:\t{line_break}Uid: 0 0 0 0\nUmask:\t0022\nUid:\t2002\t2002\t2002\t2002\n"
    (tmp_path / "proc/33/status").write_bytes(status.encode())
    assert look(tmp_path)["fabricmanager"][0] is False


def test_without_access_to_the_executable_the_user_ids_decide(tmp_path: Path) -> None:
    task(tmp_path, 5, "nv-fabricmanage")
    process(tmp_path / "5", "x")
    (tmp_path / "5/exe").unlink()
    assert system.walk(tmp_path).names == {"nv-fabricmanage": 5}


def test_a_service_is_found_by_process_cgroup_or_pid_file(tmp_path: Path) -> None:
    cgroup = tmp_path / "sys/fs/cgroup/system.slice/nvidia-dcgm.service"
    cgroup.mkdir(parents=True)
    (cgroup / "cgroup.procs").write_text("12\n")
    note = tmp_path / "run/nvidia-persistenced/nvidia-persistenced.pid"
    note.parent.mkdir(parents=True)
    note.write_text("33\n")
    process(tmp_path / "proc/33", "nvidia-persistenced", uids="113 113 113 113")
    found = look(tmp_path, "nv-fabricmanager")
    assert {name: running for name, (running, _) in found.items()} == {
        "fabricmanager": True,
        "persistenced": True,
        "dcgm": True,
    }
    process(tmp_path / "proc/33", "bash", uids="2002 2002 2002 2002")
    assert look(tmp_path)["persistenced"] == (
        False,
        "its pid file names process 33, which does not exist",
    )


def test_a_service_that_is_not_visible_is_not_stopped(tmp_path: Path) -> None:
    """As in slurmd's own container: no host processes, no units."""
    (tmp_path / "proc").mkdir()
    assert {running for running, _ in look(tmp_path).values()} == {None}


def test_an_installed_unit_without_a_process_has_stopped(tmp_path: Path) -> None:
    (tmp_path / "proc/2").mkdir(parents=True)
    (tmp_path / "proc/2/comm").write_text("kthreadd\n")
    unit = tmp_path / "usr/lib/systemd/system/nvidia-fabricmanager.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    assert look(tmp_path)["fabricmanager"][0] is False
    assert look(tmp_path, whole=False)["fabricmanager"][0] is None, "the scan was cut short"
    assert look(tmp_path)["dcgm"][0] is None, "it is not installed"
