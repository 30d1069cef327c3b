"""Figure 2: test errors on data that are not separable, MNIST digits 3 and 5."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.separability import check_separability
from momentron.solvers.base import Candidates
from momentron.verify import verify
from paper import style
from paper.claims import Claim
from paper.figure import Figure, Measured, Part, Report
from paper.methods import (
    DESCENT,
    METHODS,
    MOMENTUM,
    NORMALIZED,
    NORMALIZED_ROOT,
    PERCEPTRON,
    Method,
    method_part,
)
from paper.path import AT_THIS_HORIZON, root_iterations
from paper.recording import require_end
from paper.sample import Sample, mnist_pair

PROOF, REFERENCE = "proof", "soft-margin"
PROOF_FILE = "proof.json"
PROOF_SECONDS = 600.0
WELL = 1.5
"""A method performs well whose test error is at most so many times the reference's."""
SOFTNESS = (5e-4, 5e-3, 5e-2, 0.5, 5.0)
NOT_SEPARABLE = ("quasi-separable", "overlapping")
STANDARD = (MOMENTUM, NORMALIZED, DESCENT)
"""The methods on the exponential loss, with the step sizes that the paper's appendix names."""


class Figure2(Figure):
    """Test error and dual objective against iterations; the proof that nothing separates."""

    name = "fig2"
    title = "Figure 2, data that are not separable"

    def __init__(self, sample: Sample, *, iterations: int, quick: bool) -> None:
        super().__init__(sample, quick=quick)
        self.iterations = iterations

    @classmethod
    def from_mnist(cls, quick: bool) -> "Figure2":
        """Digits 3 and 5; the quick version has smaller images, for which the proof is quick too.

        Fewer rows alone would not do: 4,000 of the rows in all the pixels may well be separable.
        """
        if quick:
            return cls(mnist_pair(3, 5, rows=4000, shrink=2), iterations=1000, quick=True)
        return cls(mnist_pair(3, 5), iterations=3000, quick=False)

    def about(self) -> str:
        sample = self.sample
        small = (
            " The images are averaged to 14 × 14 pixels and a third of the rows is used; the proof "
            "and every number speak of these smaller data."
        )
        return (
            f"{sample.title}, {sample.y_test.size:,} rows to test on, no intercept, "
            f"{self.iterations:,} iterations of each method with the paper's parameters."
            f"{small if self.quick else ''} The batch perceptron returns its running average; its "
            "last iterate is drawn faintly. The reference is the soft margin with squared hinge, "
            f"with the C of {', '.join(f'{C:g}' for C in SOFTNESS)} that is best on the test rows "
            "themselves. The dual objective is ½‖Zᵀq‖² with rows of length at most 1, the least so "
            "far: no classifier has a margin above ‖Zᵀq‖, and its infimum is 0 exactly if the data "
            f"are not separable. `{PROOF_FILE}` holds the proof of the verdict on that, which "
            "`momentron verify` checks. With θ_t = 1/√t the normalised gradient is after t "
            "iterations about where θ = 1 is after 2√t, on the path that both follow."
        )

    def parts(self) -> list[Part]:
        proof = {"max_time": PROOF_SECONDS}
        return [
            Part(PROOF, proof, 0.8 * self.iterations, self._measure_proof),
            Part(REFERENCE, {"C": SOFTNESS}, 0.1 * self.iterations, self._measure_reference),
            *(self._curve(method) for method in METHODS),
        ]

    def _curve(self, method: Method) -> Part:
        def errors(proposal: Candidates) -> dict[str, float]:
            found = {"test_error": self.sample.test_error(proposal.primals[0].w)}
            if method is PERCEPTRON:
                found["last_test_error"] = self.sample.test_error(proposal.primals[1].w)
            return found

        return method_part(method, self.sample, self.iterations, extras=errors, per_decade=100)

    def _measure_proof(self, report: Report) -> Measured:
        X, y = self.sample.X, self.sample.y
        verdict = check_separability(
            X, y, fit_intercept=False, decimals="binary", max_time=PROOF_SECONDS
        )
        text = verdict.to_json()
        facts = {
            "kind": verdict.kind,
            "verdict": verdict.sentence,
            "verified": verify(text, X, y),
            "arithmetic": verdict.arithmetic,
            "rows on the plane": int(verdict.boundary_rows.size),
            "best margin at most": verdict.upper,
            "seconds": verdict.seconds,
        }
        return Measured(facts=facts, files={PROOF_FILE: text})

    def _measure_reference(self, report: Report) -> Measured:
        errors = {}
        for done, C in enumerate(SOFTNESS):
            soft = max_margin(self.sample.X, self.sample.y, fit_intercept=False, C=C, tol=1e-4)
            require_end(soft.status)
            errors[f"{C:g}"] = self.sample.test_error(soft.coef)
            report((done + 1) / len(SOFTNESS))
        best = min(errors, key=lambda C: errors[C])
        return Measured(facts={"C": float(best), "test_error": errors[best], "all": errors})

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        errors = {m.name: measured[m.name].columns["test_error"] for m in METHODS}
        reference = float(measured[REFERENCE].facts["test_error"])
        return [
            self._not_separable(measured[PROOF].facts),
            self._dual_falls(measured[MOMENTUM.name].columns),
            performs_well(
                "The methods based on exponential loss still perform well (the three with the step "
                "sizes of the appendix).",
                "Figure 2, caption",
                {m.name: errors[m.name] for m in STANDARD},
                reference,
            ),
            root_performs_well(
                errors[NORMALIZED_ROOT.name], measured[NORMALIZED.name].columns, reference
            ),
            perceptron_suffers(errors, measured[PERCEPTRON.name].columns["last_test_error"]),
            performs_well(
                "Algorithm 1 can also achieve good test accuracy even in the nonseparable case.",
                "Section 3",
                {MOMENTUM.name: errors[MOMENTUM.name]},
                reference,
            ),
        ]

    def dual_bound(self, iterations: np.ndarray) -> np.ndarray:
        """Theorem 3.1 where γ̄ = 0: ½‖Zᵀμ_t‖² ≤ 4 ln n / (t + 1)²; iteration t + 1 brings μ_t."""
        return 4.0 * math.log(self.sample.y.size) / iterations.astype(float) ** 2

    def _dual_objective(self, upper: np.ndarray) -> np.ndarray:
        return 0.5 * (upper / self.sample.radius) ** 2

    def _not_separable(self, proof: Mapping[str, Any]) -> Claim:
        n, d = self.sample.X.shape
        return Claim(
            "The data is non-separable, specifically mnist digits 3 and 5.",
            "Figure 2, caption",
            {"rows": n, "features": d} | {k: v for k, v in proof.items() if k != "kind"},
            bool(proof["verified"]) and proof["kind"] in NOT_SEPARABLE,
        )

    def _dual_falls(self, columns: Mapping[str, np.ndarray]) -> Claim:
        """Non-separable data keep the dual objective below the bound; a margin would lift it."""
        # μ_0 has no bound; from there on each iteration's own value counts, not the least so far
        dual = self._dual_objective(columns["theorem_upper"][1:])
        bound = self.dual_bound(columns["iteration"][1:])
        upper = columns["upper"][-1] / self.sample.radius
        return Claim(
            "Digits 3 and 5 can be verified as nonseparable after inspecting the dual objective: "
            "momentum's stays below 4 ln n/(t + 1)², the bound of Theorem 3.1 for γ̄ = 0.",
            "Appendix F, of Figure 2",
            {"dual objective at the start": dual[0], "at the end": dual[-1]}
            | {"bound at the end": bound[-1], "times above the bound": int((dual > bound).sum())}
            | {"margins above this times max‖x‖ ruled out": upper},
            bool((dual <= bound).all()),
        )

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        title = f"{self.title}: {self.sample.title}"
        figure, (left, right) = style.two_panels(title)
        for method in METHODS:
            columns = dict(measured[method.name].columns)
            columns["dual"] = self._dual_objective(columns["upper"])
            style.draw_curve(left, columns, "iteration", "test_error", method)
            style.draw_curve(right, columns, "iteration", "dual", method)
        perceptron, reference = measured[PERCEPTRON.name].columns, measured[REFERENCE].facts
        self._draw_last_iterate(left, perceptron)
        label = f"soft margin, C = {reference['C']:g}"
        left.axhline(reference["test_error"], color=style.INK, linewidth=1.0, label=label)
        t, label = perceptron["iteration"], "Theorem 3.1: momentum is below"
        right.plot(t, self.dual_bound(t), color=MOMENTUM.colour, linestyle=":", label=label)
        proof = measured[PROOF].facts
        right.text(0.03, 0.05, proof_words(proof), transform=right.transAxes, color=style.INK)
        for axes in (left, right):
            axes.set(xscale="log", yscale="log", xlabel="iterations", xlim=(1, self.iterations))
        ticks = [0.03, 0.05, 0.1, 0.2, 0.5]
        left.set(ylabel="test error", title="Test error", ylim=(0.025, 0.6))
        left.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
        left.minorticks_off()
        right.set(ylabel="½‖Zᵀq‖²", title="Dual objective")
        style.shared_legend(figure, (left, right))
        return figure

    def _draw_last_iterate(self, axes: Any, columns: Mapping[str, np.ndarray]) -> None:
        kept = style.thin(columns["iteration"], per_decade=50)
        axes.plot(
            columns["iteration"][kept],
            columns["last_test_error"][kept],
            color=PERCEPTRON.colour,
            alpha=0.35,
            linewidth=0.8,
            label="batch perceptron, last iterate",
        )


def proof_words(proof: Mapping[str, Any]) -> str:
    """The verdict as it stands in the picture."""
    if proof["verified"] and proof["kind"] in NOT_SEPARABLE:
        return f"not separable: proved, {proof['arithmetic']} arithmetic"
    return f"verdict: {proof['kind']}"


def performs_well(
    claim: str, source: str, errors: Mapping[str, np.ndarray], reference: float
) -> Claim:
    """Are the last test errors at most `WELL` times that of a tuned soft margin."""
    last = {name: float(curve[-1]) for name, curve in errors.items()}
    return Claim(
        claim,
        source,
        {f"{name}, test error": error for name, error in last.items()}
        | {f"{name}, least": float(curve.min()) for name, curve in errors.items()}
        | {"soft margin, tuned on the test rows": reference, "allowed times that": WELL},
        max(last.values()) <= WELL * reference,
    )


def root_performs_well(
    errors: np.ndarray, path: Mapping[str, np.ndarray], reference: float
) -> Claim:
    """The same of θ_t = 1/√t; if not yet, from when on, by the path that it shares with θ = 1."""
    claim = performs_well(
        "The same of the normalised gradient with θ_t = 1/√t, which the introduction names "
        "but the appendix does not.",
        "Figure 2, caption",
        {NORMALIZED_ROOT.name: errors},
        reference,
    )
    if claim.holds:
        return claim
    bad = np.flatnonzero(path["test_error"] > WELL * reference)
    good = int(bad[-1]) + 1 if bad.size else 0
    is_there = good < path["iteration"].size  # θ = 1 gets there in the run
    when = float(root_iterations(path["iteration"][good])) if is_there else None
    since = {"performs well, by the path of θ = 1, since iteration, about": when}
    return replace(claim, measured=claim.measured | since, holds=None, word=AT_THIS_HORIZON)


def perceptron_suffers(errors: Mapping[str, np.ndarray], last_iterate: np.ndarray) -> Claim:
    """Is the batch perceptron's last test error above those of the exponential loss."""
    last = {name: float(curve[-1]) for name, curve in errors.items()}
    tail = last_iterate[-max(1, last_iterate.size // 20) :]
    return Claim(
        "By contrast, the batch perceptron suffers: its test error is above that of each method on "
        "the exponential loss with the step sizes of the appendix.",
        "Figure 2, caption",
        {f"{name}, test error": error for name, error in last.items()}
        | {"batch perceptron, last iterate, median at the end": float(np.median(tail))},
        last[PERCEPTRON.name] > max(last[method.name] for method in STANDARD),
    )
