"""The wheel holds our four packages and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.wheel, pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation the build needs no network: its backend is a development dependency.
    built = subprocess.run(
        [sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "-o", folder, ROOT],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_has_exactly_four_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}

    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"matrices", "ledger", "policies", "reproduce"}


def test_the_wheel_has_every_module_and_no_test(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if name.endswith(".py")}

    in_tree = {
        str(path.relative_to(ROOT))
        for package in ("matrices", "ledger", "policies", "reproduce")
        for path in (ROOT / package).rglob("*.py")
    }
    assert packed == in_tree
    assert not [name for name in packed if Path(name).name.startswith(("test_", "conftest"))]


def test_every_package_in_the_wheel_is_typed(wheel: zipfile.ZipFile) -> None:
    for package in ("matrices", "ledger", "policies", "reproduce"):
        assert f"{package}/py.typed" in wheel.namelist()


def test_the_wheel_cannot_be_uploaded_by_accident(wheel: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))

    assert "Classifier: Private :: Do Not Upload" in wheel.read(metadata).decode()


def test_the_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    (scripts,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))

    assert "reproduce = reproduce.__main__:main" in wheel.read(scripts).decode()
