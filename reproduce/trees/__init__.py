"""Trees: the source that trials run in, stored once by its content."""

from reproduce.trees.store import (
    Tree,
    snapshot,
    snapshot_revision,
    tree_digest,
    tree_path,
    verify_tree,
)

__all__ = [
    "Tree",
    "snapshot",
    "snapshot_revision",
    "tree_digest",
    "tree_path",
    "verify_tree",
]
