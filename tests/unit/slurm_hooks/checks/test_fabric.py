"""Checks of InfiniBand and the PCI bus: what each sees, and what it leaves be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_hooks.facts import PcieFacts, PciFacts, PciKind
from tests.unit.slurm_hooks.healthy_node import (
    GPU,
    LINK,
    PORT,
    SWITCH,
    WELL,
    findings,
    judged,
    on_bus,
    port,
    port_deltas,
)

# --- InfiniBand -----------------------------------------------------------------------------------


def test_a_port_that_is_slower_than_before() -> None:
    assert judged("infiniband", port(rate_gbps=200.0)) == [("IB_RATE", "mlx5_0/1")]
    assert judged("infiniband", port(rate_gbps=200.0, best_gbps=None)) == []
    assert judged("infiniband", WELL, min_rate_gbps=800) == [("IB_RATE", "mlx5_0/1")]
    down = port(rate_gbps=2.5, state="DOWN")
    assert judged("infiniband", down) == [("IB_DOWN", "mlx5_0/1")], "the cause, not its consequence"


def test_a_card_that_is_missing_or_renamed() -> None:
    gone = replace(PORT, present=False, state="")
    other = replace(PORT, device="mlx5_9")
    (found,) = findings("infiniband", replace(WELL, ports=(gone,)))
    assert (found.code, found.detail) == ("IB_MISSING", "InfiniBand card mlx5_0 is missing")
    renamed = replace(WELL, ports=(other, replace(gone, now_called="mlx5_9")))
    assert "is now named mlx5_9" in findings("infiniband", renamed)[0].detail
    wanted = frozenset({"mlx5_0", "mlx5_1"})
    assert judged("infiniband", WELL, hcas=wanted) == [("IB_MISSING", "mlx5_1")]
    assert judged("infiniband", renamed, hcas=frozenset({"mlx5_9"})) == []
    ethernet = replace(gone, link_layer="Ethernet")
    assert judged("infiniband", replace(WELL, ports=(PORT, replace(ethernet, device="x")))) == []


def test_a_node_that_booted_without_the_driver_of_its_cards() -> None:
    """It has no port at all, and that must not read as a node without InfiniBand."""
    bare = replace(WELL, ports=())
    named = frozenset({"mlx5_0", "mlx5_1"})
    missing = [("IB_MISSING", "mlx5_0"), ("IB_MISSING", "mlx5_1")]
    assert judged("infiniband", bare, hcas=named) == missing
    card = PcieFacts(pci="0000:54:00.0", kind=PciKind.HCA)
    on_the_bus = replace(bare, pci=PciFacts(devices=(GPU, SWITCH, card)))
    assert judged("infiniband", on_the_bus) == [("IB_MISSING", "0000:54:00.0")]
    assert judged("infiniband", on_the_bus, hcas=named) == missing, "reported once"
    assert judged("infiniband", bare) == [], "no card, none asked for"
    network = replace(card, kind=PciKind.NIC)
    assert judged("infiniband", replace(bare, pci=PciFacts(devices=(network,)))) == []
    assert judged("infiniband", replace(WELL, ports=None), hcas=named) == [], "not read"


@pytest.mark.parametrize(
    ("ber", "code"),
    [(0.0, None), (5e-15, None), (6e-15, "IB_BER_RISING"), (2e-14, "IB_BER"), (None, None)],
)
def test_symbol_errors(ber: float | None, code: str | None) -> None:
    expected = [] if code is None else [(code, "mlx5_0/1")]
    assert judged("infiniband_errors", port_deltas(symbol_ber=ber)) == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"integrity": 1}, "1 link integrity errors"),
        ({"overruns": 2}, "2 buffer overruns"),
        ({"recoveries_per_min": 5.5}, "5.5 link recoveries per minute"),
        ({"receive_errors_per_s": 11.0}, "11 receive errors per second"),
        ({"recoveries_per_min": 5.0, "receive_errors_per_s": 10.0}, None),
        ({"discards_per_s": 1e6}, None),
    ],
)
def test_errors_of_a_port(change: dict[str, float], words: str | None) -> None:
    found = findings("infiniband_errors", port_deltas(**change))
    assert [f.code for f in found] == (["IB_ERRORS"] if words else [])
    if words:
        assert words in found[0].detail


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"effective_ber": 6e-12}, "IB_BER_RISING"),
        ({"effective_ber": 2e-11}, "IB_BER"),
        ({"symbol_ber": 6e-15}, "IB_BER_RISING"),
        ({"symbol_ber": 2e-14}, "IB_BER"),
        ({"effective_ber": 2e-11, "minutes": 124.0}, None),
        ({"effective_ber": None, "symbol_ber": None}, None),
    ],
)
def test_bit_error_rates_of_a_link(change: dict[str, Any], code: str | None) -> None:
    found = judged("infiniband_ber", replace(WELL, links=(replace(LINK, **change),)))
    assert found == ([(code, "mlx5_0")] if code else [])


def test_firmware_that_differs_from_other_cards() -> None:
    cards = [replace(PORT, device=f"mlx5_{i}") for i in range(3)]
    odd = replace(PORT, device="mlx5_3", firmware="28.30.1000")
    facts = replace(WELL, ports=(*cards, odd))
    assert judged("infiniband_firmware", facts) == [("IB_FIRMWARE", "mlx5_3")]
    assert (
        judged("infiniband_firmware", replace(WELL, ports=(*cards, replace(odd, board="x")))) == []
    )
    assert judged("infiniband_firmware", facts, versions=frozenset({"28.30.1000"})) == [
        ("IB_FIRMWARE", f"mlx5_{i}") for i in range(3)
    ]


# --- PCI ------------------------------------------------------------------------------------------


def test_devices_that_are_missing_on_the_bus() -> None:
    gone = ((PciKind.GPU, "0000:53:00"), (PciKind.HCA, "0000:54:00.0"))
    assert judged("pci_devices", on_bus(SWITCH, gone=gone)) == [("PCI_GPU_GONE", "GPU-0")]
    switch = ((PciKind.NVSWITCH, "0000:05:00.0"),)
    assert judged("pci_devices", on_bus(GPU, gone=switch)) == [("NVSWITCH_GONE", "0000:05:00.0")]


def test_fewer_devices_than_expected() -> None:
    assert judged("pci_devices", on_bus(SWITCH)) == [("PCI_GPU_GONE", "node")]
    assert judged("pci_devices", WELL, nvswitches=4) == [("NVSWITCH_GONE", "node")]
    assert judged("pci_devices", on_bus(GPU, *[SWITCH] * 4), nvswitches=4) == []


def test_a_device_that_reads_as_all_ones() -> None:
    dead = on_bus(replace(GPU, answers=False), SWITCH)
    (found,) = findings("pci_devices", dead)
    assert (found.code, found.subject, found.gpu) == ("PCI_DEVICE_SILENT", "GPU-0", 0)
    assert judged("pci_devices", on_bus(replace(GPU, answers=None))) == []


def test_pcie_errors() -> None:
    assert judged("pcie_aer", on_bus(replace(GPU, fatal_new=1))) == [("PCIE_AER_FATAL", "GPU-0")]
    assert judged("pcie_aer", on_bus(replace(GPU, nonfatal_new=1))) == [("PCIE_AER", "GPU-0")]
    assert judged("pcie_aer", on_bus(replace(GPU, correctable_per_min=31.0))) == []
    assert judged("pcie_aer", on_bus(replace(GPU, correctable_per_min=32.0))) == [
        ("PCIE_AER", "GPU-0")
    ]
    assert judged("pcie_aer", on_bus(replace(GPU, fatal=900, fatal_new=None))) == []
