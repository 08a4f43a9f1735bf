"""Attach the agent to a PySpark driver without a change to the program: Python runs `sitecustomize` at its start.

It acts where this directory is on PYTHONPATH, or the agent's zip is given to Spark by `--py-files`, and
CONTROLPLANE_URL is set. It imports nothing of the agent before the program makes a Spark session, since most Python
processes never make one.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would cost every Python process milliseconds
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

AGENT = "listeners.autoattach"
PACKAGE = AGENT.partition(".")[0]
HERE = os.path.dirname(os.path.abspath(__file__))
#: Spark gives these to the Python processes that run functions on executors and for its planner.
WORKERS = "PYTHON_WORKER_FACTORY_"


class Gate:
    """Import hook that changes modules of PySpark as soon as they are loaded."""

    controlplane = True

    def __init__(self, acts: dict[str, Callable[[Any], None]]) -> None:
        self.acts = acts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.acts:
            return None
        act = self.acts.pop(name)  # no recursion while the other finders are asked
        for finder in list(sys.meta_path):
            spec: Any = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                spec.loader = Loader(spec.loader, act)
                return spec
        self.acts[name] = act
        return None


class Loader:
    """Loader that delegates to the real one and restores it before the module can see this one."""

    def __init__(self, loader: Any, act: Callable[[Any], None]) -> None:
        self._loader, self._act = loader, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        guarded(self._act, module)


def wrap_builder(module: Any) -> None:
    """Attach the agent as soon as the program has made its session."""
    wrap(module.SparkSession.Builder, "getOrCreate", _made)


def wrap_writer(module: Any) -> None:
    """Attach before the first query of a session that no builder made."""
    for name in ("start", "toTable"):
        wrap(module.DataStreamWriter, name, _starting)


GATES = {
    "pyspark.sql.session": wrap_builder,
    "pyspark.sql.connect.session": wrap_builder,
    "pyspark.sql.streaming.readwriter": wrap_writer,
    "pyspark.sql.connect.streaming.readwriter": wrap_writer,
}


def wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    from functools import wraps

    original = owner.__dict__.get(name)
    if original is None:
        return

    @wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    setattr(owner, name, method)


def _made(original: Any, builder: Any, *args: Any, **kwargs: Any) -> Any:
    session = original(builder, *args, **kwargs)
    join(session)
    return session


def _starting(original: Any, writer: Any, *args: Any, **kwargs: Any) -> Any:
    session = getattr(writer, "_spark", None) or getattr(writer, "_session", None)
    if session is not None and join(session):  # the agent has just wrapped over us: let it see this start
        return getattr(writer, original.__name__)(*args, **kwargs)
    return original(writer, *args, **kwargs)


def join(session: Any) -> bool:
    """Attach to this session's application unless that was tried before; True if that made the agent."""
    try:
        autoattach = agent()
        return autoattach is not None and bool(autoattach.joined(session))
    except Exception:
        return False


def agent() -> Any:
    """The module `autoattach`; None where another module has the name of the agent's package."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    if AGENT not in sys.modules:
        found = find_spec(PACKAGE)
        if found is None:
            sys.path.append(home())
        elif PathFinder.find_spec(AGENT, found.submodule_search_locations or []) is None:
            return refuse(found.origin)
    from listeners import autoattach

    return autoattach


def home() -> str:
    """The directory or zip that holds the agent."""
    inside_the_package = HERE.endswith(os.path.join(PACKAGE, "site"))
    return os.path.dirname(os.path.dirname(HERE)) if inside_the_package else HERE


def refuse(theirs: str | None) -> None:
    """Log once why there is no agent."""
    import logging

    if GATES:
        GATES.clear()
        text = "the control plane's agent is not attached: another module is named %s (%s)"
        logging.getLogger("controlplane.agent").warning(text, PACKAGE, theirs)


def is_wanted() -> bool:
    """True in a driver with a server configured, unless another copy of this hook is active."""
    if not os.environ.get("CONTROLPLANE_URL") or any(name.startswith(WORKERS) for name in os.environ):
        return False
    return not any(getattr(finder, "controlplane", False) for finder in sys.meta_path)


def wait_for_pyspark() -> None:
    sys.meta_path.insert(0, Gate({name: act for name, act in GATES.items() if name not in sys.modules}))
    for name, act in GATES.items():
        if name in sys.modules:
            guarded(act, sys.modules[name])


def guarded(act: Callable[[Any], None], module: Any) -> None:
    try:
        act(module)
    except Exception:  # an unknown PySpark: the program runs on without an agent
        pass


def pass_on() -> None:
    """Run the `sitecustomize` that Python would have found without this one."""
    from importlib.machinery import PathFinder

    places = [os.path.abspath(place) for place in sys.path]
    later = sys.path[places.index(HERE) + 1 :] if HERE in places else []
    spec = PathFinder.find_spec("sitecustomize", later)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    sys.modules["sitecustomize"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if is_wanted():
        wait_for_pyspark()
    pass_on()
