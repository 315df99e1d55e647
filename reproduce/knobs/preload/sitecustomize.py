"""Sets the thread switch interval, says what it became, and runs the target's own sitecustomize.

It runs in whatever Python 3 the target uses: standard library, old syntax, no import of ours.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _set_interval() -> None:
    interval = os.environ.get("REPRODUCE_SWITCH_INTERVAL")
    folder = os.environ.get("REPRODUCE_KNOBS")
    if not interval or not folder:
        return
    sys.setswitchinterval(float(interval))
    try:
        # The first interpreter of a trial reports; what it starts inherits the setting.
        with open(os.path.join(folder, "switch_interval"), "x") as file:  # noqa: PTH118, PTH123
            file.write("%.9f" % sys.getswitchinterval())  # noqa: UP031
    except OSError:
        # No evidence is evidence of nothing: the reader says that the knob did not take.
        pass


def _run_next() -> None:
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_set_interval()
_run_next()
