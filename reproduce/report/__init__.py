"""Shows a verdict: on the terminal, as JSON, CSV, Markdown and JUnit. Computes no statistics."""
