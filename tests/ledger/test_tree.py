import hashlib

import pytest
from hypothesis import given, strategies as st
from pymerkle import InmemoryTree

from ledger.tree import (
    EMPTY_ROOT,
    Tree,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The leaves, roots and proofs of the reference tests of Certificate Transparency.
DATA = [
    bytes.fromhex(data)
    for data in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
LEAVES = [leaf_hash(data) for data in DATA]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MANY = [leaf_hash(b"%d" % n) for n in range(70)]


def test_a_tree_without_leaves_has_the_hash_of_nothing() -> None:
    assert Tree().root() == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_the_roots_are_those_of_the_reference() -> None:
    tree = Tree()
    found = []
    for leaf in LEAVES:
        tree.append(leaf)
        found.append(tree.root().hex())

    assert found == ROOTS


def test_the_proofs_are_those_of_the_reference() -> None:
    assert [node.hex() for node in inclusion_proof(LEAVES, 0)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    assert [node.hex() for node in consistency_proof(LEAVES, 6)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@given(st.lists(st.binary(max_size=40), max_size=80), st.data())
def test_another_implementation_gives_the_same_roots_and_proofs(
    entries: list[bytes], data: st.DataObject
) -> None:
    oracle = InmemoryTree(algorithm="sha256")
    tree = Tree()
    for size, entry in enumerate(entries, 1):
        oracle.append_entry(entry)
        tree.append(leaf_hash(entry))
        assert tree.root() == oracle.get_root(size)
    if entries:
        leaves = [leaf_hash(entry) for entry in entries]
        index = data.draw(st.integers(0, len(entries) - 1))
        path = oracle.prove_inclusion(index + 1).path
        # The oracle orders its path by position and not from the leaf up.
        assert sorted([leaves[index], *inclusion_proof(leaves, index)]) == sorted(path)


@given(st.lists(st.binary(max_size=8), max_size=130), st.integers(0, 130))
def test_a_tree_goes_on_from_its_frontier(entries: list[bytes], cut: int) -> None:
    leaves = [leaf_hash(entry) for entry in entries]
    first = Tree()
    first.extend(leaves[:cut])

    second = Tree.from_frontier(first.size, first.frontier())
    second.extend(leaves[cut:])

    assert second.size == len(leaves)
    assert second.root() == root_of(leaves)
    assert len(second.frontier()) == 32 * len(leaves).bit_count()


@pytest.mark.parametrize(("size", "length"), [(0, 1), (1, 0), (3, 32), (4, 31), (-1, 0)])
def test_a_frontier_of_another_size_is_refused(size: int, length: int) -> None:
    with pytest.raises(ValueError, match="frontier"):
        Tree.from_frontier(size, bytes(length))


def test_every_leaf_of_every_small_tree_is_shown_to_be_in_it_and_nowhere_else() -> None:
    for size in range(1, 34):
        leaves, root = MANY[:size], root_of(MANY[:size])
        for index in range(size):
            proof = inclusion_proof(leaves, index)
            assert verify_inclusion(leaves[index], index, size, proof, root=root)
            for other in range(-1, size + 2):
                shown = verify_inclusion(leaves[index], other, size, proof, root=root)
                assert shown == (other == index)


def test_every_small_tree_is_shown_to_begin_every_larger_one() -> None:
    for second in range(34):
        second_root = root_of(MANY[:second])
        for first in range(second + 1):
            first_root = root_of(MANY[:first])
            proof = consistency_proof(MANY[:second], first)
            assert verify_consistency(
                first, second, proof, first_root=first_root, second_root=second_root
            )
            if 0 < first < second:
                assert not verify_consistency(
                    first, second, proof, first_root=second_root, second_root=second_root
                )
                assert not verify_consistency(
                    first, second, proof, first_root=first_root, second_root=first_root
                )


@given(st.integers(2, 70), st.data())
def test_a_changed_proof_shows_nothing(size: int, data: st.DataObject) -> None:
    leaves = MANY[:size]
    root = root_of(leaves)
    index = data.draw(st.integers(0, size - 1))
    first = data.draw(st.integers(1, size - 1))
    inclusion = inclusion_proof(leaves, index)
    consistency = consistency_proof(leaves, first)

    for changed in broken(inclusion, data.draw(st.integers(0, len(inclusion) - 1))):
        assert not verify_inclusion(leaves[index], index, size, changed, root=root)
    for changed in broken(consistency, data.draw(st.integers(0, len(consistency) - 1))):
        assert not verify_consistency(
            first, size, changed, first_root=root_of(leaves[:first]), second_root=root
        )


def broken(proof: tuple[bytes, ...], place: int) -> list[tuple[bytes, ...]]:
    flipped = bytes([proof[place][0] ^ 1]) + proof[place][1:]
    return [
        (*proof[:place], *proof[place + 1 :]),
        (*proof[:place], flipped, *proof[place + 1 :]),
        (*proof, proof[place]),
        (),
    ]


@pytest.mark.parametrize("index", [-1, 8, 9])
def test_there_is_no_proof_for_a_leaf_that_is_not_there(index: int) -> None:
    with pytest.raises(ValueError, match="not in a tree"):
        inclusion_proof(LEAVES, index)


@pytest.mark.parametrize("first", [-1, 9])
def test_a_larger_tree_is_no_beginning(first: int) -> None:
    with pytest.raises(ValueError, match="beginning"):
        consistency_proof(LEAVES, first)
    assert not verify_consistency(first, 8, (), first_root=EMPTY_ROOT, second_root=EMPTY_ROOT)
