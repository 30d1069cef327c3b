"""The layers of the package: which module may import which. Read from the source, by `ast`.

Imports point downwards only. Each name below `momentron`, a module or a whole package, is in one
layer; it may import itself and the layers below its own. Imports for type checkers alone, under
`if TYPE_CHECKING:`, create no dependency and are left out.
"""

import ast
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import momentron

SOURCE = Path(momentron.__file__).parent

LAYERS = [  # from the ground up: what is in a layer, and why it is there
    ({"errors", "status"}, "words for what went wrong and how a solve ended"),
    ({"arithmetic"}, "rounding, the floating-point environment, threads and deadlines"),
    ({"certificate", "data"}, "bounds and their proof; numbers that arrive exactly or not at all"),
    ({"views", "verify", "dual", "rows"}, "pictures, the checker, and the two sides of a problem"),
    ({"solvers", "result", "datasets"}, "the problem, the loop, the methods, what they end with"),
    ({"fitting"}, "from options and data in memory to a result"),
    ({"streams"}, "the same for data on disk or a cluster, in blocks"),
    ({"api"}, "max_margin, which decides between the two"),
    ({"estimators", "separability"}, "what is built on max_margin"),
    ({"momentron", "cli", "ntk", "onnx"}, "the doors; that of networks measures classifiers, too"),
]
LEVEL = {name: level for level, (names, _) in enumerate(LAYERS) for name in names}

LAZY = {  # what may be imported inside a function, since it needs a slow or optional package
    "momentron.streams.dask": "dask",
    "momentron.streams.parquet": "pyarrow",
    "momentron.ntk": "torch",
    "momentron.data.exactness": "scipy",  # `python -m momentron.verify` needs numpy only
}

KNOWN: set[tuple[str, str]] = set()  # (importer, imported): to be fixed, and then deleted here

CAREFUL = {"errors", "arithmetic.clock", "arithmetic.environment"}
TRUSTED = CAREFUL | {"certificate", "arithmetic.rounding"}
VERIFIER = CAREFUL | {"verify", "data.exactness"}


class Import(NamedTuple):
    """One import of a module: where it stands, and what it names."""

    importer: str
    imported: str
    is_lazy: bool  # inside a function


def module_name(file):
    parts = list(file.relative_to(SOURCE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in SOURCE.rglob("*.py")}


def is_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_within(node, is_lazy=False):
    """(import statement, whether it is inside a function), but not those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, is_lazy
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports_within(child, is_lazy or is_function)


def imports_of(importer):
    """Every import of a module, as the module that it loads."""
    for node, is_lazy in imports_within(ast.parse(MODULES[importer].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{importer}: relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in whole]
        for name in names:
            yield Import(importer, name, is_lazy)


IMPORTS = [found for name in sorted(MODULES) for found in imports_of(name)]
OWN = [found for found in IMPORTS if found.imported.split(".")[0] == "momentron"]


def unit(module):
    """The module or package directly below momentron to which a module belongs."""
    parts = module.split(".")
    if parts[-1] == "__main__":
        return "cli"
    return parts[1] if len(parts) > 1 else "momentron"


def parents(module):
    """The packages in which a module is."""
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def described(imports):
    return "\n".join(f"{found.importer} imports {found.imported}" for found in imports)


def test_every_module_is_in_a_layer():
    assert len(LEVEL) == sum(len(names) for names, _ in LAYERS), "a name is in two layers"
    units = {unit(name) for name in MODULES}
    assert not units - set(LEVEL), f"say in LAYERS where {sorted(units - set(LEVEL))} belong"
    assert not set(LEVEL) - units, f"delete {sorted(set(LEVEL) - units)} from LAYERS"


def test_the_house_is_small_enough_to_know():
    assert len(LAYERS) <= 10
    assert len(list(SOURCE.glob("*.py"))) <= 8


SAME_NOUN = {  # names of files that occur twice
    "__init__.py": "a package",
    "__main__.py": "a command of its own",
    "check.py": "check_separability, and the command that calls it",
    "errors.py": "errors of the package, and of the checker, which is used without it",
}


def test_files_have_names_of_their_own():
    names = [file.name for file in SOURCE.rglob("*.py")]
    assert {name for name in names if names.count(name) > 1} == set(SAME_NOUN)
    assert len(names) <= 240


def test_imports_point_downwards():
    upward = [
        found
        for found in OWN
        if unit(found.importer) != unit(found.imported)
        and LEVEL[unit(found.importer)] <= LEVEL[unit(found.imported)]
        and (found.importer, found.imported) not in KNOWN
    ]
    assert not upward, described(upward)


def is_listed(module):
    return any(module == name or module.startswith(f"{name}.") for name in LAZY)


def test_no_import_inside_a_function_but_of_optional_packages():
    hidden = [
        found
        for found in OWN
        if found.is_lazy
        and not is_listed(found.imported)
        and (found.importer, found.imported) not in KNOWN
    ]
    assert not hidden, described(hidden)


def test_modules_form_no_cycle():
    graph = defaultdict(set)
    for found in OWN:
        if not found.is_lazy and found.importer != found.imported:
            graph[found.importer].add(found.imported)
    list(TopologicalSorter(graph).static_order())  # raises CycleError with the cycle


def test_what_is_known_is_still_so():
    gone = KNOWN - {(found.importer, found.imported) for found in OWN}
    assert not gone, f"fixed: delete {sorted(gone)} from KNOWN"


def foreign(package):
    """The packages outside the standard library, numpy and momentron that a package imports."""
    names = {found.imported.split(".")[0] for found in IMPORTS if unit(found.importer) == package}
    return names - sys.stdlib_module_names - {"momentron", "numpy"}


@pytest.mark.parametrize(("package", "allowed"), [("certificate", TRUSTED), ("verify", VERIFIER)])
def test_what_must_be_believed_imports_nothing_clever(package, allowed):
    used = {found.imported for found in OWN if unit(found.importer) == package}
    names = {f"momentron.{name}" for name in allowed}
    assert not [each for each in used if not {each, *parents(each)} & names]
    assert not foreign(package)


def test_the_heart_of_the_verifier_imports_nothing_of_ours():
    names = {found.imported for found in IMPORTS if found.importer == "momentron.verify.proof"}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"numpy"}


SHARED = {  # what the prover takes from the checker: none of it knows pairs, vectors or integers
    "verify": {"ProofError", "ProofTooLarge", "check_document"},  # every proof is checked
    "verify.errors": {"ProofError", "UNREADABLE", "reason"},
    "verify.exact_table": {"Table"},  # for its digest, and to hand to the checker
    "verify.limits": {"LONGEST_NAME", "MAX_BASIS", "VERSION", "load_proof"},
    "verify.outcomes": {
        *("column_name", "column_names", "label_texts", "own_order", "ungrouped"),
        "zero_weight_rows",
    },
    "verify.proof": {"Proof", "read_interval", "whole_numbers"},  # to read JSON
}


def test_what_the_prover_shares_with_the_checker():
    found = defaultdict(set)
    for module in MODULES:
        if unit(module) in ("separability", "solvers"):
            for node, _ in imports_within(ast.parse(MODULES[module].read_text())):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("momentron.verify"):
                    names = {alias.name for alias in node.names}
                    found[node.module.removeprefix("momentron.")] |= names
    assert found == SHARED


def test_the_package_does_not_import_its_benchmarks_or_tests():
    outside = {found.imported.split(".")[0] for found in IMPORTS}
    assert not outside & {"benchmarks", "paper", "tests"}


def test_the_tests_do_not_import_the_benchmarks():
    folder = Path(__file__).parent
    for file in folder.rglob("*.py"):
        for found, _ in imports_within(ast.parse(file.read_text())):
            assert "benchmarks" not in ast.unparse(found), file.name
