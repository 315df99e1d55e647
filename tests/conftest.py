"""Hypothesis profiles: the same examples every time in CI, new ones at a desk."""

import os

from hypothesis import HealthCheck, settings

# A busy machine is not a defect of the code, so neither time limit applies.
settings.register_profile(
    "desk", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "ci", settings.get_profile("desk"), database=None, derandomize=True, print_blob=False
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
