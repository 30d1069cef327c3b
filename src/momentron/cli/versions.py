"""Which software this runs on, for reports and for `momentron info`."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from threadpoolctl import threadpool_info

NEEDED = ("numpy", "scipy", "scikit-learn")
OPTIONAL = ("matplotlib", "python-flint", "torch", "pyarrow", "dask", "pandas")


def versions(*names: str) -> dict[str, str]:
    """Our version, Python's, and those of the packages named that are installed."""
    found = {"momentron": version("momentron"), "python": platform.python_version()}
    for name in names or NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def blas_libraries() -> list[dict[str, Any]]:
    """The libraries for linear algebra that are loaded, with their threads."""
    kept = ("internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [
        {name: library[name] for name in kept if library.get(name) is not None}
        for library in threadpool_info()
    ]
