"""The Merkle tree of RFC 6962: hashes, a tree that grows in constant memory, and its proofs."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves (RFC 6962, section 2.1)."""

_LEAF = b"\x00"
_NODE = b"\x01"


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf: SHA-256(0x00 ‖ data) (RFC 6962, section 2.1)."""
    return hashlib.sha256(_LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node: SHA-256(0x01 ‖ left ‖ right) (RFC 6962, section 2.1)."""
    return hashlib.sha256(_NODE + left + right).digest()


class Tree:
    """A tree that only grows, held as the roots of its perfect subtrees, largest first.

    There is one such root for every binary one in its size: 20 hashes for a million leaves.
    """

    __slots__ = ("_roots", "size")

    def __init__(self) -> None:
        """Makes a tree without leaves."""
        self.size = 0
        self._roots: list[bytes] = []

    @classmethod
    def from_frontier(cls, size: int, frontier: bytes) -> Self:
        """The tree of `size` leaves whose `frontier()` was `frontier`.

        Raises:
            ValueError: a tree of that size has a frontier of another length.
        """
        if size < 0 or len(frontier) != HASH_BYTES * size.bit_count():
            message = f"{len(frontier)} bytes cannot be the frontier of {size} leaves"
            raise ValueError(message)
        tree = cls()
        tree.size = size
        tree._roots = [
            frontier[start : start + HASH_BYTES] for start in range(0, len(frontier), HASH_BYTES)
        ]
        return tree

    def frontier(self) -> bytes:
        """The roots of the perfect subtrees, largest first, one after the other."""
        return b"".join(self._roots)

    def append(self, leaf: bytes) -> None:
        """Adds one leaf, given by its hash."""
        roots, size, node = self._roots, self.size, leaf
        while size & 1:
            node = node_hash(roots.pop(), node)
            size >>= 1
        roots.append(node)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Adds leaves in order, given by their hashes."""
        for leaf in leaves:
            self.append(leaf)

    def root(self) -> bytes:
        """The root over all leaves; that of the empty tree is SHA-256 of nothing."""
        if not self._roots:
            return EMPTY_ROOT
        node = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            node = node_hash(left, node)
        return node


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root of the tree with these leaf hashes."""
    tree = Tree()
    tree.extend(leaves)
    return tree.root()


def _split(size: int) -> int:
    """The largest power of two below `size`: where RFC 6962 parts a tree of two leaves or more."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The hashes that lead from leaf `index` to the root (RFC 6962, section 2.1.1).

    Raises:
        ValueError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        message = f"leaf {index} is not in a tree of {len(leaves)}"
        raise ValueError(message)
    proof: list[bytes] = []
    start, end = 0, len(leaves)
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[start:middle]))
            start = middle
    return tuple(reversed(proof))


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], *, root: bytes
) -> bool:
    """Whether `proof` shows that leaf `index` of the tree with `size` leaves and `root` is `leaf`.

    RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        return False
    node, position, last = leaf, index, size - 1
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        position >>= 1
        last >>= 1
    return last == 0 and node == root


def consistency_proof(leaves: Sequence[bytes], first: int) -> tuple[bytes, ...]:
    """The hashes that show the tree of the first `first` leaves to be a beginning of this one.

    RFC 6962, section 2.1.2. Empty where the two trees are the same, or the first has no leaves.

    Raises:
        ValueError: `first` is larger than the tree.
    """
    if not 0 <= first <= len(leaves):
        message = f"a tree of {first} leaves cannot be the beginning of one with {len(leaves)}"
        raise ValueError(message)
    if first == 0:
        return ()
    proof: list[bytes] = []
    start, end, is_whole = 0, len(leaves), True
    while first < end:
        middle = start + _split(end - start)
        if first <= middle:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[start:middle]))
            start, is_whole = middle, False
    if not is_whole:
        proof.append(root_of(leaves[start:end]))
    return tuple(reversed(proof))


def verify_consistency(
    first: int, second: int, proof: Sequence[bytes], *, first_root: bytes, second_root: bytes
) -> bool:
    """Whether `proof` shows that the first tree is a beginning of the second.

    RFC 9162, section 2.1.4.2; a tree without leaves is a beginning of every tree.
    """
    if not 0 <= first <= second:
        return False
    if first in (0, second):
        known = EMPTY_ROOT if first == 0 else second_root
        return not proof and first_root == known
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    if not path:
        return False
    position, last = first - 1, second - 1
    while position & 1:
        position >>= 1
        last >>= 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            new = node_hash(new, sibling)
        position >>= 1
        last >>= 1
    return last == 0 and old == first_root and new == second_root
