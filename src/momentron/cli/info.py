"""`momentron info`: what this installation is made of."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_info

from momentron.cli.output import say
from momentron.data.safefiles import cache_dir
from momentron.datasets import DATASETS
from momentron.datasets.loaders import ENVIRONMENT

NEEDED = ("numpy", "scipy", "scikit-learn")
OPTIONAL = ("matplotlib", "python-flint", "torch", "pyarrow", "dask", "pandas")
OF_LIBRARY = ("internal_api", "version", "num_threads", "threading_layer", "architecture")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print versions, linear algebra libraries, threads and data folders, for bug reports."""
    found = gather()
    if as_json:
        print(json.dumps(found))
        return
    lines = [f"{name:<16}{version}" for name, version in found["versions"].items()]
    lines.append(f"{'not installed':<16}{', '.join(found['missing']) or 'nothing'}")
    lines.append(f"{'platform':<16}{found['platform']}")
    lines.append(f"{'processors':<16}{found['processors']}")
    lines.append(f"{'long double':<16}{found['long_double_bits']} bits of precision")
    for library in found["blas"]:
        words = ", ".join(f"{name} {value}" for name, value in library.items())
        lines.append(f"{'library':<16}{words}")
    lines.append(f"{'data folder':<16}{found['data_folder'] or f'none ({ENVIRONMENT} is not set)'}")
    lines.append(f"{'cache':<16}{found['cache']}")
    lines.append(f"{'known data sets':<16}{', '.join(found['datasets'])}")
    say(*lines)


def gather() -> dict[str, Any]:
    """Everything the command prints, as plain values."""
    here = versions(*NEEDED, *OPTIONAL)
    return {
        "versions": here,
        "missing": [name for name in OPTIONAL if name not in here],
        "platform": f"{platform.system()} {platform.release()}, {platform.machine()}",
        # those that this process may use
        "processors": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "long_double_bits": int(np.finfo(np.longdouble).nmant) + 1,
        "blas": [
            {name: library[name] for name in OF_LIBRARY if library.get(name)}
            for library in threadpool_info()
        ],
        "data_folder": os.environ.get(ENVIRONMENT) or None,
        "cache": str(cache_dir()),
        "datasets": list(DATASETS),
    }


def versions(*names: str) -> dict[str, str]:
    """Our version, Python's, and those of the packages named that are installed."""
    found = {"momentron": version("momentron"), "python": platform.python_version()}
    for name in names or NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
