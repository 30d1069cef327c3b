"""`momentron fit`: the certified margin of a data set."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

from momentron.api import fit as fit_plan
from momentron.api import plan_fit, reads_in_blocks
from momentron.cli.commands import Source
from momentron.cli.inputs import load_data, named_solver
from momentron.cli.model import Classifier, write_model
from momentron.cli.output import answer, say_facts, say_json
from momentron.data.safefiles import naming, require_writable
from momentron.errors import InputError, counted, short
from momentron.estimators import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.fitting.fits import Fits
from momentron.fitting.options import FitOptions
from momentron.rows.validation import TrainingData, require_class_weight
from momentron.status import Predictor, Status
from momentron.streams import BlockData

# what a summary has from the result as it is
SAME = ("method", "lower", "upper", "gap", "margin", "is_soft", "passes", "seconds")


def fit(source: Source, save: Path | None, as_json: bool, **given: Any) -> None:
    """Print the certified margin; `given` are the options of `max_margin`, and of `BlockData`."""
    with suppress(ValueError):  # of "scale" and "auto"
        given["gamma"] = float(given["gamma"])
    for path in filter(None, (save, given["checkpoint"])):
        require_writable(path)
    out_of_core, memory, dask = (given[name] for name in ("out_of_core", "memory", "dask"))
    kernel, class_weight = given["kernel"], given.pop("class_weight")
    data, classes = source.data, source.classes
    wants_blocks = bool(out_of_core) or dask is not None or memory is not None
    if wants_blocks and (data is None or classes is not None or out_of_core is False):
        raise InputError(
            "--out-of-core, --memory and --dask need DATA, and exclude --classes and --in-memory"
        )
    blocks = BlockData(data or "", source.target, memory, dask)
    given |= {"method": named_solver(given["method"]), "fit_intercept": given["intercept"]}
    given["block_size"] = blocks.block_size if wants_blocks else None
    options = FitOptions.among(given | {"verbose": 0 if as_json else 1})
    is_file = data is not None and Path(data).expanduser().exists()  # else a known dataset, or none
    may_choose = is_file and out_of_core is None and classes is None
    if wants_blocks or (may_choose and reads_in_blocks(data, options)):
        _require_blocks(source, class_weight)
        with blocks.opened() as (stream, columns):
            options = replace(options, class_weight=class_weight)
            plan = plan_fit(stream, None, options)
            found = fit_plan(plan, options)
        taken = list[str]()
    else:
        table = load_data(source)
        plan = plan_fit(table.X, table.y, options, sample_weight=table.weights)
        assert plan.data is not None, "arrays are in memory"
        weights = as_class_weight(class_weight, plan.data.classes)
        found = fit_plan(plan, replace(options, class_weight=weights))
        columns, taken = table.columns, table.taken
    model = MaxMarginClassifier() if kernel is None else KernelMaxMarginClassifier(kernel=kernel)
    model._take(plan.data, found)
    summary = summarise(model, found, plan.data, source.name, taken)
    show = partial(say_json if as_json else print_summary, summary)
    write = partial(write_model, model=model, columns=columns)
    answer(show, save, write, word=None if as_json else "saved")
    raise typer.Exit(0 if model.status_.is_final else 1)


def _require_blocks(source: Source, class_weight: str | None) -> None:
    """Refuse options of tables where a file is read in every pass."""
    if source.weight is not None or class_weight not in (None, "balanced"):
        raise InputError(
            "--weight and --class-weight, other than 'balanced', need the data in memory "
            "(--in-memory); weights do not change a hard margin, but remove rows of weight 0 from "
            "the file"
        )
    with naming(source.data):
        source.require_plain("it is read in blocks; pass --in-memory")


def as_class_weight(text: str | None, classes: np.ndarray) -> str | dict[Any, float] | None:
    """ "balanced", or weights by label, from the text of a command line."""
    if text is None or text == "balanced":
        return text
    labels = {str(label): label for label in classes.tolist()}
    pairs = [part.rsplit("=", 1) for part in text.split(",")]
    try:
        found = {labels[label]: float(weight) for label, weight in pairs}
    except ValueError:
        raise InputError(
            f"--class-weight {short(text)} must be 'balanced', or label=weight pairs such as "
            "0=1,1=20"
        ) from None
    except KeyError as error:
        label, known = short(error.args[0]), ", ".join(list(labels)[:12])
        raise InputError(f"--class-weight names {label}; the labels are {known}") from None
    require_class_weight(found)
    return found


def summarise(
    model: Classifier, found: Fits, data: TrainingData | None, title: str, taken: list[str]
) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    result = model.result_
    # no pass is spent on counting the errors of a classifier that has some
    error = 0.0 if result.margin > 0.0 else None
    if data is not None and found.rows is not None:
        kept = found.rows.data.kept  # the rows that have a weight
        is_wrong = model.predict(data.X) != data.y
        error = float(np.mean(is_wrong if kept is None else is_wrong[kept]))
    return {name: getattr(result, name) for name in SAME} | {
        "data": title,
        "rows": result.n_rows,
        "features": model.shape_fit_[1],
        "classes": [str(label) for label in result.classes],
        "status": str(result.status),
        "classifier": str(result.predictor),
        "support": int(result.support.size),
        "training_error": error,
        "iterations": result.n_iter,
        **({"bytes_read": result.bytes_read} if data is None else {"read": taken}),
    }


def print_summary(summary: dict[str, Any]) -> None:
    """The answer, one fact per line."""
    classes, n = summary["classes"], summary["rows"]
    class_names = " against ".join(classes) if len(classes) == 2 else f"{len(classes)} classes"
    margin, quantity = f"{'best' if len(classes) == 2 else 'joint'} margin", ""
    if summary["is_soft"]:
        margin, quantity = "soft margin", "1/√(2·objective) "
    is_overlap = summary["status"] == Status.NOT_SEPARABLE
    gap = "" if is_overlap else f", relative gap {summary['gap']:.2e}"
    interval = f"{quantity}in [{summary['lower']:.12g}, {summary['upper']:.12g}]{gap}"
    support, classifier = f"{summary['support']} of {n} rows", summary["classifier"]
    if classifier in (Predictor.LOGISTIC, Predictor.CONSTANT):
        support, classifier = "", f"the fallback, {classifier}"
        if not summary["is_soft"]:
            when = "" if is_overlap else "if the classes overlap, "
            classifier += f"; {when}pass -C for a soft margin, such as -C 1"
    error, seconds = summary["training_error"], summary["seconds"]
    steps = counted(summary["iterations"], "iteration")
    passes, read = counted(summary["passes"], "pass"), summary.get("bytes_read", 0)
    speed = f"{read / 1e9:.3f} GB, {read / max(seconds, 1e-9) / 1e6:.0f} MB/s" if read else ""
    facts = [
        ("read", "; ".join(summary.get("read", ()))),
        ("verdict", summary["status"]),
        (margin, interval),
        ("support", support),
        ("classifier", "" if classifier == Predictor.MARGIN else classifier),
        ("training error", "not counted" if error is None else f"{error:.4%}"),
        ("work", f"{summary['method']}, {steps}, {passes}, {seconds:.3f} s"),
        ("read", speed),
    ]
    say_facts(f"{summary['data']}: {n} × {summary['features']}, {class_names}", facts)
