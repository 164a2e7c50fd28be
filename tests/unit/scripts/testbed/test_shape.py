"""Names, addresses and the shape of a box."""

from __future__ import annotations

import pytest
from testbed.shape import MAX_NODES, Shape, address, kube_name, link, node_index, node_name


def shape(nodes: int = 3, *, hooks: bool = True) -> Shape:
    return Shape(
        name="b",
        nodes=nodes,
        slurm="24.11",
        root="/r",
        layers=("/l1", "/l2"),
        hooks=hooks,
        programs=(("etcd", "/x/etcd"),),
    )


def test_a_shape_is_read_back_from_its_file_unchanged() -> None:
    assert Shape.from_json(shape().to_json()) == shape()


def test_slurm_and_kubernetes_names_match() -> None:
    assert shape().node_names == ("worker-0", "worker-1", "worker-2")
    assert kube_name("worker-12") == "computeinstance-12"
    assert node_index(node_name(7)) == 7


@pytest.mark.parametrize("name", ["worker-", "worker-x", "node-1", "worker-1 ", ""])
def test_a_name_that_is_no_node_has_no_index(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is the name
        node_index(name)


def test_every_node_has_its_own_address_and_interface_name() -> None:
    names = [node_name(index) for index in range(MAX_NODES)]
    addresses = {address(name) for name in [*names, "controller"]}
    assert len(addresses) == MAX_NODES + 1
    assert all(0 < int(each.rpartition(".")[2]) < 255 for each in addresses)
    assert max(len(link(name)) for name in names) <= 15, "IFNAMSIZ"
