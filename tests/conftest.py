"""What all tests share: profiles of Hypothesis, and a state folder that is not the person's."""

import os

import pytest
from hypothesis import HealthCheck, settings

# In CI the same examples every time, at a desk new ones. A busy machine is not a defect of the
# code, so neither time limit applies.
settings.register_profile(
    "desk", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "ci", settings.get_profile("desk"), database=None, derandomize=True, print_blob=False
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(autouse=True, scope="session")
def _own_state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps the key that seals approvals out of the real home; commands inherit it."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state-home"))
