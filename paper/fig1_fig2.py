"""Figures 1 and 2: margins on separable data (MNIST 0/1), test errors on other data (MNIST 3/5)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.separability import check_separability
from momentron.verify import verify
from momentron.views.display.style import GREY, INK
from paper.data import mnist_pair, require_end
from paper.judge import Claim, decade_exponent, since
from paper.method_curves import (
    DESCENT,
    METHODS,
    MOMENTUM,
    NORMALIZED,
    NORMALIZED_ROOT,
    PERCEPTRON,
    Method,
    draw_curve,
    errors_of,
    method_part,
    row_of_panels,
    shared_legend,
    thin,
)
from paper.runner import Figure, Measured, Part, Report
from paper.sublinear import NAME as SUBLINEAR
from paper.sublinear import SEEDS, fares_less_well, sublinear_part

TOL = 1e-9
BEST = "auto"
FLOOR = 3e-4
"""The lowest shortfall shown, relative to the best margin."""


AT_THIS_HORIZON = "not decided at this horizon"


def unless_late(claim: Claim) -> Claim:
    """A claim about the long run, which is open as long as it has not come true."""
    return claim if claim.holds else replace(claim, holds=None, word=AT_THIS_HORIZON)


@dataclass(frozen=True)
class Bound:
    """What is guaranteed of momentum's margin in the units of rows of length at most 1."""

    words: str
    source: str
    slack: Callable[[np.ndarray, float], np.ndarray]  # γ̄ minus the bound, times γ̄; from t and ln n


PRINTED = Bound(
    "γ̄ − 4(1 + ln n)(1 + 2 ln(t + 1))/(γ̄ (t + 1)²)",
    "Theorem 3.1, first part",
    lambda t, log_n: 4.0 * (1.0 + log_n) * (1.0 + 2.0 * np.log(t + 1.0)) / (t + 1.0) ** 2,
)
SHARPER = Bound(
    "γ̄ − 4 ln n/(γ̄ t(t + 3))",
    "beyond the paper: Theorem 3.1 without its logarithm",
    lambda t, log_n: 4.0 * log_n / (t * (t + 3.0)),
)


@dataclass
class Figure1(Figure):
    """Margins against iterations and seconds; the best margin, certified, from `auto`."""

    name = "fig1"
    title = "Figure 1, margins on separable data"
    seed = 0  # the first of the sublinear perceptron's

    _: KW_ONLY
    iterations: int  # of each method

    @classmethod
    def from_mnist(cls, quick: bool) -> "Figure1":
        """Digits 0 and 1; the quick version has a quarter of the rows and fewer iterations."""
        if quick:
            return cls(mnist_pair(0, 1, rows=3000), iterations=1000, quick=True)
        return cls(mnist_pair(0, 1), iterations=3000, quick=False)

    def numbers(self) -> dict[str, Any]:
        last = self.iterations
        return {"title": self.sample.title, "iterations": last, "first": last // 10, "seeds": SEEDS}

    def parts(self) -> list[Part]:
        best = Part(BEST, {"tol": TOL}, 20.0, self._measure_best)
        curves = [method_part(m, self.sample, self.iterations) for m in METHODS]
        return [best, *curves, sublinear_part(self.sample, self.iterations)]

    def _measure_best(self, report: Report) -> Measured:
        sample = self.sample
        result = max_margin(sample.sparse, sample.y, fit_intercept=False, tol=TOL)
        require_end(result.status)
        columns = result.trace.to_dict()
        facts = {"lower": result.lower, "upper": result.upper, "status": str(result.status)}
        kept = {
            name: columns[name] for name in ("iteration", "seconds", "margin", "lower", "upper")
        }
        return Measured(kept, {**facts, "gap": result.gap, "seconds": result.seconds})

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        best = measured[BEST].facts
        margins = {m.name: measured[m.name].columns["margin"] for m in METHODS}
        return [
            self._separable(best),
            momentum_first(margins, measured[PERCEPTRON.name].columns["lower"]),
            perceptron_second(margins),
            normalizing_helps(margins, NORMALIZED.name, "θ_t = 1"),
            unless_late(normalizing_helps(margins, NORMALIZED_ROOT.name, "θ_t = 1/√t")),
            *fares_less_well(measured[SUBLINEAR].facts, margins[PERCEPTRON.name]),
            self._bound_holds(PRINTED, margins[MOMENTUM.name], best),
            self._bound_holds(SHARPER, margins[MOMENTUM.name], best),
            interval_holds(measured[MOMENTUM.name].columns, best),
            rates(margins, best["upper"]),
            auto_is_sooner(measured),
        ]

    def theorem_bound(self, bound: Bound, t: np.ndarray, best: float) -> np.ndarray:
        """The least margin that it allows, in the units of X."""
        slack = bound.slack(t, math.log(self.sample.y.size))
        return best - self.sample.radius**2 * slack / best

    def highest_best(self, t: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """The largest γ̄ with γ̄ − 4 ln n/(γ̄ t(t + 3)) ≤ γ(w_t): the theorem, solved for it."""
        slack = self.sample.radius**2 * SHARPER.slack(t, math.log(self.sample.y.size))
        return (margins + np.sqrt(margins**2 + 4.0 * slack)) / 2.0

    def _separable(self, best: Mapping[str, Any]) -> Claim:
        n, d = self.sample.X.shape
        return Claim(
            "The data here is linearly separable, specifically mnist digits 0 and 1.",
            "Figure 1, caption",
            {"rows": n, "features": d, "best margin at least": best["lower"]}
            | {"best margin at most": best["upper"], "certified gap": best["gap"]},
            best["lower"] > 0.0,
        )

    def _bound_holds(self, bound: Bound, margins: np.ndarray, best: Mapping[str, Any]) -> Claim:
        t = np.arange(1, margins.size + 1)
        # the bound grows with γ̄, so that its upper end is the severest
        least = self.theorem_bound(bound, t, best["upper"])
        crossed = int((margins < least).sum())
        return Claim(
            f"For all t ≥ 1 the margin of momentum is at least {bound.words}.",
            bound.source,
            {"iterations": t.size, "crossed": crossed}
            | {"smallest distance": float((margins - least).min())}
            | {"bound at the end": least[-1], "margin at the end": margins[-1]},
            crossed == 0,
            any_size=True,
        )

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        best = measured[BEST].facts["upper"]
        title = f"{self.title}: {self.sample.title}"
        figure, (left, middle, right) = row_of_panels(title, 3)
        for method in METHODS:
            columns = dict(measured[method.name].columns)
            columns["share"] = columns["margin"] / best
            columns["short"] = 1.0 - columns["share"]
            draw_curve(left, columns, "iteration", "share", method)
            draw_curve(middle, columns, "iteration", "short", method)
            draw_curve(right, columns, "seconds", "short", method)
        left.axhline(1.0, color=INK, linewidth=1.0, label=f"best margin, certified: {best:.5g}")
        self._draw_theorem(left, middle, measured[MOMENTUM.name].columns, best)
        for power in (1, 2):  # a fan in the empty corner, to compare slopes with
            t = np.array([2.0, 20.0])
            y = 0.1 * (t / t[0]) ** -power
            middle.plot(t, y, color=GREY, linewidth=1.0)
            middle.text(1.1 * t[1], y[1], "1/t" if power == 1 else "1/t²", color=GREY, fontsize=8)
        auto, shape = measured[BEST].columns, {"markersize": 4, "zorder": 5}
        short = np.maximum(1.0 - auto["margin"] / best, FLOOR)
        right.plot(auto["seconds"], short, "o-", color=INK, label="auto", **shape)
        left.set(title="Margin over the best margin", ylabel="γ / γ̄", ylim=(-1.0, 1.15))
        middle.set(title="Shortfall, both axes logarithmic", ylabel="(γ̄ − γ) / γ̄")
        right.set(title="Shortfall against seconds", xlabel="seconds", xscale="log")
        for axes in (left, middle):
            axes.set(xscale="log", xlabel="iterations", xlim=(1, self.iterations))
        for axes in (middle, right):
            axes.set(yscale="log", ylim=(FLOOR, 20.0))
        shared_legend(figure, (left, middle, right), columns=4)
        return figure

    def _draw_theorem(
        self, left: Any, middle: Any, columns: Mapping[str, np.ndarray], best: float
    ) -> None:
        kept = thin(columns["iteration"])
        t, margins = columns["iteration"][kept], columns["margin"][kept]
        least, colour = self.theorem_bound(SHARPER, t, best) / best, MOMENTUM.colour
        label = "theorem: momentum is better"
        left.plot(t, least, color=colour, linestyle=":", label=label)
        middle.plot(t, 1.0 - least, color=colour, linestyle=":")
        highest, label = self.highest_best(t, margins) / best, "theorem: the best margin is inside"
        left.fill_between(
            t, np.maximum(margins / best, 0.0), highest, color=colour, alpha=0.15, lw=0, label=label
        )


def momentum_first(margins: Mapping[str, np.ndarray], perceptron_best: np.ndarray) -> Claim:
    """Is momentum's margin the largest at the end, and since when."""
    ours = margins[MOMENTUM.name]
    # the batch perceptron may point at its best iterate so far instead of its average
    others = [margin for name, margin in margins.items() if name != MOMENTUM.name]
    ahead = since(ours <= np.max([*others, perceptron_best], axis=0))
    return Claim(
        "The new momentum-based method has the largest margin of all the methods compared.",
        "Figure 1",
        {"iterations": ours.size}
        | {name: float(margin[-1]) for name, margin in margins.items()}
        | {"batch-perceptron, best iterate so far": perceptron_best[-1]}
        | {"first for good since iteration": None if ahead is None else ahead + 1},
        ahead is not None,
    )


def perceptron_second(margins: Mapping[str, np.ndarray]) -> Claim:
    """Does the batch perceptron lead the older methods at the end."""
    names = (PERCEPTRON.name, NORMALIZED.name, NORMALIZED_ROOT.name, DESCENT.name)
    last = {name: float(margins[name][-1]) for name in names}
    return Claim(
        "The batch perceptron is hard to beat, and surpasses prior implicit margin maximizers in "
        "experiments.",
        "Section 1.1, of Figure 1",
        last,
        last[PERCEPTRON.name] > max(last[name] for name in names[1:]),
    )


def normalizing_helps(margins: Mapping[str, np.ndarray], name: str, step: str) -> Claim:
    """Does the normalised gradient lead gradient descent at the end."""
    normalized, descent = margins[name], margins[DESCENT.name]
    return Claim(
        f"The margin can be maximized much faster by simply normalizing the gradient ({step}).",
        "Section 1",
        {"iterations": normalized.size, name: normalized[-1], DESCENT.name: descent[-1]},
        bool(normalized[-1] > descent[-1]),
    )


def interval_holds(columns: Mapping[str, np.ndarray], best: Mapping[str, Any]) -> Claim:
    """Does the interval of Theorem 3.1 contain the best margin at every iteration that has one."""
    low, high = columns["theorem_lower"], columns["theorem_upper"]
    there = ~np.isnan(low)
    missed = int(((low > best["upper"]) | (high < best["lower"]))[there].sum())
    return Claim(
        "For all t ≥ 1, 4‖g_t‖²/t² − 8 ln n/(t + 1)² ≤ γ̄² ≤ 4‖g_t‖²/t².",
        "Theorem 3.1, second part",
        {"iterations": int(there.sum()), "missed": missed}
        | {"at the end from": low[-1], "to": high[-1]},
        missed == 0,
        any_size=True,
    )


def rates(margins: Mapping[str, np.ndarray], best: float) -> Claim:
    """The exponents with which γ̄ − γ(w_t) falls over the last decade of iterations."""
    last = margins[MOMENTUM.name].size
    t = np.unique(np.geomspace(max(1.0, last / 10), last, 200).astype(int))
    exponents = {
        name: decade_exponent(t, best - margin[t - 1], last) for name, margin in margins.items()
    }
    older = [value for name, value in exponents.items() if name != MOMENTUM.name]
    ours = exponents[MOMENTUM.name]
    return Claim(
        "The iterates maximize the margin at a rate of Õ(1/t²), whereas prior work had a rate of "
        "O(1/t) at best: the exponent of momentum is below −1 and below those of the others.",
        "Section 1",
        {"fitted from iteration": int(t[0]), "to": last}
        | {f"exponent of {name}": value for name, value in exponents.items()},
        ours < -1.0 and ours < min(older),
    )


def auto_is_sooner(measured: Mapping[str, Measured]) -> Claim:
    """Beyond the paper: how long `auto` takes for a margin that no iteration here has reached."""
    auto, momentum = measured[BEST], measured[MOMENTUM.name].columns
    return Claim(
        "The default method, `auto`, certifies the best margin before momentum has finished.",
        "beyond the paper",
        {"auto, seconds": auto.facts["seconds"], "auto, certified gap": auto.facts["gap"]}
        | {"momentum, seconds": momentum["seconds"][-1]}
        | {"momentum, margin short by": 1.0 - momentum["margin"][-1] / auto.facts["upper"]},
        auto.facts["gap"] <= TOL and auto.facts["seconds"] < momentum["seconds"][-1],
    )


PROOF, REFERENCE = "proof", "soft-margin"
PROOF_FILE = "proof.json"
PROOF_SECONDS = 600.0
WELL = 1.5
"""A method performs well whose test error is at most this many times the reference's."""
SOFTNESS = (5e-4, 5e-3, 5e-2, 0.5, 5.0)
NOT_SEPARABLE = ("quasi-separable", "overlapping")
STANDARD = (MOMENTUM, NORMALIZED, DESCENT)
"""The methods on the exponential loss, with the step sizes that the paper's appendix names."""


@dataclass
class Figure2(Figure):
    """Test error and dual objective against iterations; the proof that nothing separates."""

    name = "fig2"
    title = "Figure 2, data that are not separable"

    _: KW_ONLY
    iterations: int  # of each method

    @classmethod
    def from_mnist(cls, quick: bool) -> "Figure2":
        """Digits 3 and 5; the quick version has smaller images, for which the proof is quick too.

        Fewer rows alone would not do: 4,000 of the rows in all the pixels may well be separable.
        """
        if quick:
            return cls(mnist_pair(3, 5, rows=4000, shrink=2), iterations=1000, quick=True)
        return cls(mnist_pair(3, 5), iterations=3000, quick=False)

    def numbers(self) -> dict[str, Any]:
        small = (
            " The images are averaged to 14 × 14 pixels and a third of the rows is used; the proof "
            "and every number speak of these smaller data."
        )
        return {
            "title": self.sample.title,
            "tests": self.sample.y_test.size,
            "small": small if self.quick else "",
            "iterations": self.iterations,
            "softness": ", ".join(f"{C:g}" for C in SOFTNESS),
            "proof": PROOF_FILE,
        }

    def parts(self) -> list[Part]:
        proof = {"max_time": PROOF_SECONDS}
        return [
            Part(PROOF, proof, 0.8 * self.iterations, self._measure_proof),
            Part(REFERENCE, {"C": SOFTNESS}, 0.1 * self.iterations, self._measure_reference),
            *(self._curve(method) for method in METHODS),
        ]

    def _curve(self, method: Method) -> Part:
        errors = errors_of(method, self.sample.test_error)
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
            unless_late(
                performs_well(
                    "The same of the normalised gradient with θ_t = 1/√t, which the introduction "
                    "names but the appendix does not.",
                    "Figure 2, caption",
                    {NORMALIZED_ROOT.name: errors[NORMALIZED_ROOT.name]},
                    reference,
                )
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
        figure, (left, right) = row_of_panels(title)
        for method in METHODS:
            columns = dict(measured[method.name].columns)
            columns["dual"] = self._dual_objective(columns["upper"])
            draw_curve(left, columns, "iteration", "test_error", method)
            draw_curve(right, columns, "iteration", "dual", method)
        perceptron, reference = measured[PERCEPTRON.name].columns, measured[REFERENCE].facts
        self._draw_last_iterate(left, perceptron)
        label = f"soft margin, C = {reference['C']:g}"
        left.axhline(reference["test_error"], color=INK, linewidth=1.0, label=label)
        t, label = perceptron["iteration"], "Theorem 3.1: momentum is below"
        right.plot(t, self.dual_bound(t), color=MOMENTUM.colour, linestyle=":", label=label)
        proof = measured[PROOF].facts
        words = f"verdict: {proof['kind']}"
        if proof["verified"] and proof["kind"] in NOT_SEPARABLE:
            words = f"not separable: proved, {proof['arithmetic']} arithmetic"
        right.text(0.03, 0.05, words, transform=right.transAxes, color=INK)
        for axes in (left, right):
            axes.set(xscale="log", yscale="log", xlabel="iterations", xlim=(1, self.iterations))
        ticks = [0.03, 0.05, 0.1, 0.2, 0.5]
        left.set(ylabel="test error", title="Test error", ylim=(0.025, 0.6))
        left.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
        left.minorticks_off()
        right.set(ylabel="½‖Zᵀq‖²", title="Dual objective")
        shared_legend(figure, (left, right))
        return figure

    def _draw_last_iterate(self, axes: Any, columns: Mapping[str, np.ndarray]) -> None:
        kept = thin(columns["iteration"], per_decade=50)
        axes.plot(
            columns["iteration"][kept],
            columns["last_test_error"][kept],
            color=PERCEPTRON.colour,
            alpha=0.35,
            linewidth=0.8,
            label="batch perceptron, last iterate",
        )


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
