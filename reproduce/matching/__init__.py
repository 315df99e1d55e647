"""What a symptom's patterns and reports show in the stored bytes of an attempt: findings, never outcomes."""

from reproduce.matching.finders import Matchers, keep_files
from reproduce.matching.patterns import Pattern, compile_pattern
from reproduce.matching.streams import stored_stream

__all__ = ["Matchers", "Pattern", "compile_pattern", "keep_files", "stored_stream"]
