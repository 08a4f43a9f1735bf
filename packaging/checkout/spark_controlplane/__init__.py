"""The agent's installed name in a checkout: `spark_controlplane.x` is the module `listeners.x`.

An editable install puts this package on the path, so that what the documentation shows
(`from spark_controlplane import attach`, `python -m spark_controlplane.run`) works in a checkout too. Both names
give the same module objects. The wheels contain the agent itself under this name instead.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any


def _real(name: str) -> str:
    return "listeners." + name.partition(".")[2]


class _Alias(MetaPathFinder, Loader):
    """Finds `spark_controlplane.x` and gives the module `listeners.x`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        found = importlib.util.find_spec(_real(fullname))
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, self, origin=found.origin, is_package=package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_real(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias' spec on the module: put its own back.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m`."""
        found = importlib.util.find_spec(_real(fullname))
        loader: Any = found and found.loader
        return loader.get_code(_real(fullname)) if loader else None


sys.meta_path.insert(0, _Alias())
