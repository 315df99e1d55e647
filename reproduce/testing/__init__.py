"""Contract suites that every store and every executor must keep."""
