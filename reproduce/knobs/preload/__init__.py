"""Files that run inside a target's interpreter, on the head of its `PYTHONPATH`."""
