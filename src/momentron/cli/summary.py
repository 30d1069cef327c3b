"""What `momentron fit` says of its result."""

from pathlib import Path
from typing import Any

import numpy as np

from momentron.cli.output import say
from momentron.estimators import labels_of
from momentron.fitting.in_memory import Fit
from momentron.result import MarginResult
from momentron.rows.validation import TrainingData
from momentron.status import Predictor


def summarise(title: str, data: TrainingData, fit: Fit) -> dict[str, Any]:
    """Everything the command reports, as plain numbers; errors are of the rows with a weight."""
    result, (n, d) = fit.result, data.X.shape
    assert fit.data is not None, "the rows are in memory"
    predicted = labels_of(fit.outputs(), result.classes)
    return {
        "data": title,
        "rows": n,
        "features": d,
        **_answer(result),
        "training_error": float(np.mean(predicted != fit.data.y)),
        "iterations": result.n_iter,
        "passes": int(result.trace["passes"][-1]) if len(result.trace) else 0,
        "seconds": result.seconds,
    }


def _answer(result: MarginResult) -> dict[str, Any]:
    """What all results say."""
    return {
        "classes": [str(label) for label in result.classes],
        "method": result.method,
        "status": str(result.status),
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "margin": result.margin,
        "is_soft": result.is_soft,
        "classifier": str(result.predictor),
        "support": int(result.support.size),
    }


def summarise_stream(data: str, result: MarginResult) -> dict[str, Any]:
    """The same for data in blocks; no pass is spent on the errors of a classifier that has some."""
    return {
        "data": Path(data).name,
        "rows": result.n_rows,
        "features": int(result.coef.shape[-1]),
        **_answer(result),
        "training_error": 0.0 if result.margin > 0.0 else None,
        "iterations": result.n_iter,
        "passes": result.passes,
        "seconds": result.seconds,
        "bytes_read": result.bytes_read,
    }


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact per line."""
    classes = summary["classes"]
    class_names = " against ".join(classes) if len(classes) == 2 else f"{len(classes)} classes"
    margin = f"{'best' if len(classes) == 2 else 'joint'} margin".ljust(15)
    if summary["is_soft"]:
        margin = "soft margin     1/√(2·objective)"
    lines = [
        f"{summary['data']}: {summary['rows']} × {summary['features']}, {class_names}",
        *([f"read            {'; '.join(summary['read'])}"] if summary.get("read") else []),
        f"verdict         {summary['status']}",
        f"{margin} in [{summary['lower']:.12g}, {summary['upper']:.12g}], "
        f"relative gap {summary['gap']:.2e}",
        f"support         {summary['support']} of {summary['rows']} rows",
        *_classifier(summary),
        f"training error  {_share(summary['training_error'])}",
        f"work            {summary['method']}, {summary['iterations']} iterations, "
        f"{summary['passes']} passes, {summary['seconds']:.3f} s",
    ]
    if "bytes_read" in summary:
        speed = summary["bytes_read"] / max(summary["seconds"], 1e-9) / 1e6
        lines.append(f"read            {summary['bytes_read'] / 1e9:.3f} GB, {speed:.0f} MB/s")
    say(*lines)


def _classifier(summary: dict[str, Any]) -> list[str]:
    """Which classifier the training error is of, where it is not the one that was asked for."""
    if summary["classifier"] == Predictor.MARGIN:
        return []
    if summary["is_soft"]:
        return [f"classifier      {summary['classifier']}"]
    option = "-C 1 --in-memory" if "bytes_read" in summary else "-C 1"
    return [f"classifier      {summary['classifier']}; for a soft margin pass -C, such as {option}"]


def _share(value: float | None) -> str:
    return "not counted" if value is None else f"{value:.4%}"
