"""Executors carry out trials; the engine decides which, and records what happened."""
