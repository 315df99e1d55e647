"""The engine decides what runs and records it; executors only carry out."""
