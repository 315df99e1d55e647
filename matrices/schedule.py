"""Who runs when: the plan's blocks, each in a random order that anyone can recompute.

A block holds one trial of every condition. Its order is an unbiased Fisher-Yates shuffle driven
by SHA-256 in counter mode, so that a verifier in any language finds the same schedule. Nothing
here keeps a list of trials: each block is computed when it is asked for.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from matrices.plan import Plan

SEED_BITS = 53
"""Trial seeds stay below 2**53, the largest range that canonical JSON keeps exactly."""

_WORD = 1 << 32


class Trial(NamedTuple):
    """One planned trial: its place in the schedule, its block, its condition."""

    number: int
    block: int
    condition: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The whole schedule of a plan, in constant memory."""

    seed: int
    conditions: int
    blocks: int

    def __len__(self) -> int:
        """How many trials there are."""
        return self.conditions * self.blocks

    def order(self, block: int) -> list[int]:
        """The conditions of a block in the order in which they start."""
        order = list(range(self.conditions))
        words = _words(f"reproduce-schedule-v1|{self.seed}|{block}|")
        for last in range(self.conditions - 1, 0, -1):
            # Words past the last whole multiple are thrown away, else low positions are favoured.
            limit = _WORD - _WORD % (last + 1)
            word = next(words)
            while word >= limit:
                word = next(words)
            chosen = word % (last + 1)
            order[last], order[chosen] = order[chosen], order[last]
        return order

    def block(self, block: int) -> list[Trial]:
        """The trials of one block, in the order in which they start."""
        first = block * self.conditions
        return [
            Trial(first + place, block, condition)
            for place, condition in enumerate(self.order(block))
        ]

    def trial(self, number: int) -> Trial:
        """The trial with this place in the schedule."""
        block, place = divmod(number, self.conditions)
        return Trial(number, block, self.order(block)[place])

    def __iter__(self) -> Iterator[Trial]:
        """All trials in schedule order."""
        for block in range(self.blocks):
            yield from self.block(block)


def schedule(plan: Plan) -> Schedule:
    """The schedule of a plan."""
    return Schedule(seed=plan.seed, conditions=len(plan.conditions), blocks=plan.budget.trials)


def trial_seed(seed: int, number: int, *, stream: str = "trial") -> int:
    """The 53-bit seed of one trial; streams with different names are unrelated."""
    text = f"reproduce-seed-v1|{stream}|{seed}|{number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - SEED_BITS)


def default_seed(digest_without_seed: str) -> int:
    """The plan seed where none was declared: from the digest of the plan with seed 0."""
    return trial_seed(0, 0, stream=digest_without_seed)


def _words(prefix: str) -> Iterator[int]:
    counter = 0
    while True:
        digest = hashlib.sha256(f"{prefix}{counter}".encode()).digest()
        counter += 1
        for start in range(0, 32, 4):
            yield int.from_bytes(digest[start : start + 4], "big")
