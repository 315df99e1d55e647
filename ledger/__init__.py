"""What was seen: records, canonical bytes, the Merkle tree, and the stores that keep them."""
