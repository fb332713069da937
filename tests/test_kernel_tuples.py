"""Numba looks for compiled code by the name and the fields of a tuple: no two classes may have the same."""

import importlib
import inspect
import pkgutil
from collections import defaultdict

import skyband


def test_no_two_tuples_have_the_same_name_and_fields():
    """Else calls with the second take a hundred times as long, once the first was used in the same process."""
    found = defaultdict(set)
    for module in pkgutil.walk_packages(skyband.__path__, "skyband."):
        if module.name.startswith(("skyband.kernels", "skyband.engines", "skyband.workload", "skyband.view")):
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if issubclass(kind, tuple) and hasattr(kind, "_fields"):
                    found[kind.__name__, kind._fields].add(kind)
    assert len(found) > 30
    assert [sorted(str(kind) for kind in kinds) for kinds in found.values() if len(kinds) > 1] == []
