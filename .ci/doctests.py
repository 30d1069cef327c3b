"""Import every module of the installed package and run its doctests; extras may be missing."""

import doctest
import pkgutil
import sys
from importlib import import_module

import momentron

EXTRAS = {"torch", "dask", "distributed", "matplotlib", "pyarrow"}

found = doctest.TestResults(failed=0, attempted=0)
skipped = []
for module in pkgutil.walk_packages(momentron.__path__, "momentron."):
    if module.name.endswith("__main__"):
        continue
    try:
        tests = doctest.testmod(import_module(module.name))
    except ImportError as error:
        words = set(str(error).replace(":", " ").replace("'", " ").replace(".", " ").split())
        if not words & EXTRAS:
            raise
        skipped.append(module.name)
        continue
    found = doctest.TestResults(found.failed + tests.failed, found.attempted + tests.attempted)
print(f"{found.attempted} doctests, {found.failed} failed; need an extra: {skipped or 'none'}")
sys.exit(bool(found.failed) or not found.attempted)
