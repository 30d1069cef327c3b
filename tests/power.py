"""The power of the tests: what share of a constant they use, on the problems that they have.

    python tests/power.py

computes it for each row of docs/paper/line-by-line.md that has a constant, and writes it into the
column "power" of the tables there, between the markers. 1.00 is tight: a smaller constant would be
false. `test_power.py` compares the page with what is computed, so that it fails with any smaller
share; the tests that a row names run on other data, too, and may use less.
"""

import argparse
import functools
import math
from pathlib import Path

import numpy as np
import shares
from literal import lone, lopsided
from shares import Descended, Followed, copies, lone_runs, lopsided_runs
from test_sampling_theorem import DELTA, Runs, most
from test_statements import small
from test_theorems import equality_lambda

from momentron.dual.losses import Logistic, ShiftedLogistic

PAGE = Path(__file__).parent.parent / "docs" / "paper" / "line-by-line.md"
BEGIN, END = "<!-- power: python tests/power.py -->", "<!-- end of power -->"
NOTHING, COLUMN = "–", 2


# --- problems -----------------------------------------------------------------------------------


@functools.cache
def plain_runs():
    return [Followed(*small()), Followed(*small(400, 10, 0.03))]


def runs():
    """Runs of Algorithm 1 on separable problems."""
    return [run for run in (*plain_runs(), *lopsided_runs(), *lone_runs()) if run.best > 0.0]


def copied_runs():
    """Those whose best weights are known."""
    return [*lopsided_runs(), *lone_runs()]


@functools.cache
def of_loss(loss, n, best=0.99):
    return [copies(rows, best, n, loss=loss, steps=400) for rows in (lopsided, lone)]


@functools.cache
def many_classes(k):
    """A million examples m_c e_c in each class but one, in the paper's reduction."""
    pairs = [(c, j) for c in range(k) for j in range(k) if j != c]
    eye = np.eye(k)
    Z = np.array([np.outer(eye[c], eye[j] - eye[c]).ravel() for c, j in pairs]) / math.sqrt(2)
    counts = np.array([1 if c == k - 1 else 10**6 for c, _ in pairs])
    return Followed(Z, 1 / math.sqrt(2 * (k - 1)), counts=counts, steps=100)


# --- shares of other constants --------------------------------------------------------------------


def largest(share, among):
    """The largest share over t and over the runs."""
    return max(np.max(share(run, run.best)) for run in among)


def largest_without_best(share, among):
    return max(np.max(share(run)) for run in among)


def of_printed_5_1(run, best):
    """γ̄_m − γ_m(U_t) over Theorem 5.1's 4(1 + ln n)(1 + 2 ln(t + 1))/(γ̄_m(t + 1)²)."""
    return 2 * shares.of_theorem_3_1(run, best)  # √2 · √2 of Theorem 3.1's for γ̄


def least_share(failures, allowed):
    """The smallest share of a term with which no more runs fail than may."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if failures(middle) <= allowed else (middle, high)
    return high


@functools.cache
def sampled(name):
    if name == "noisy":
        return Runs(-np.eye(300), 300**-0.5, 40)
    if name == "copied":
        return Runs(lopsided(2, 0.9), 0.9, 3000, copies=[1, 10**12 - 1])
    return Runs(lopsided(20, 0.6), 0.6, 6000)


def of_d_2(runs):
    """γ̄√(t ln n) ≤ ‖w_t‖, always."""
    return runs.best * math.sqrt(runs.steps * math.log(runs.n)) / runs.norm.min()


# --- the rows -----------------------------------------------------------------------------------


MANY = (20, 10**3, 10**6)
FASTEST = np.array([equality_lambda()(t) for t in range(200)])


def without_momentum(theta=1.0):
    return [copies(lopsided, 0.9, 10**6, lam=np.ones(3000), theta=theta)]


# the first cell of a row, and how its second begins: its power
POWERS = {
    ("Section 1", "with $θ_t = 1$"): lambda: largest(shares.of_rate, without_momentum()),
    ("Section 1", "with $θ_t = 1/"): lambda: largest(
        shares.of_rate, without_momentum((np.arange(3000) + 1.0) ** -0.5)
    ),
    ("Section 1", "without normalising"): lambda: max(
        Descended(lopsided, 0.9, 20, 20_000).of_rate()
    ),
    ("Section 1.1", "$\\bar γ/4$"): lambda: max(
        shares.steps_to_three_quarters(lopsided, best, n) for n, best in ((20, 0.5), (10**6, 0.9))
    ),
    ("Theorem 3.1, part 1", ""): lambda: largest(shares.of_theorem_3_1, runs()),
    ("Theorem 3.1, part 1, sharper", ""): lambda: largest(shares.of_rate, runs()),
    ("Theorem 3.1, part 2", ""): lambda: largest(shares.of_interval, [*runs(), *lone_runs()]),
    ("Section 3.2", "φ is 1-smooth"): lambda: largest(
        shares.of_mirror_descent, [copies(lone, 0.9, n, lam=np.ones(200)) for n in MANY]
    ),
    ("Section 3.3", ""): lambda: largest_without_best(shares.of_soft_margin, lone_runs()[:2]),
    ("Lemma 3.2", ""): lambda: largest(shares.of_interval, runs()),
    ("Lemma 3.5", ""): lambda: largest_without_best(shares.of_lemma_3_5, runs()),
    ("Lemma 3.6", ""): lambda: (
        largest(shares.of_lower_norm, runs()),
        largest_without_best(shares.of_upper_norm, runs()),
    ),
    ("Proposition 3.7", ""): lambda: largest(shares.of_proposition, runs()),
    ("(3.8)", ""): lambda: largest_without_best(shares.of_3_8, runs()),
    ("(3.9)", ""): lambda: largest(shares.of_potential, runs()),
    ("(3.10)", ""): lambda: largest(shares.of_last_display, runs()),
    ("Theorem 4.1", ""): lambda: least_share(sampled("copied").margin_failures, most(DELTA)),
    ("Section 5.1", "Theorem 3.1 for the logistic"): lambda: (
        largest(shares.of_rate, of_loss(Logistic(), 2)),
        largest(shares.of_rate, of_loss(Logistic(), 2000)),
    ),
    ("Section 5.1", "open: a better"): lambda: largest(
        shares.of_rate, of_loss(ShiftedLogistic(), 10**6)
    ),
    ("Theorem 5.1", ""): lambda: largest(of_printed_5_1, map(many_classes, (3, 4, 10))),
    ("Theorem 5.1, sharper", ""): lambda: largest(shares.of_rate, map(many_classes, (3, 4, 10))),
    ("(B.7)", ""): lambda: largest_without_best(shares.of_b_7, runs()),
    ("Lemma B.3", ""): lambda: largest(shares.of_lemma_b_3, copied_runs()),
    ("(B.8)", ""): lambda: largest(shares.of_b_9, copied_runs()),
    ("(B.9)", ""): lambda: largest(shares.of_b_9, copied_runs()),
    ("(C.8)", ""): lambda: largest(shares.of_b_9, copied_runs()),
    ("(B.11)", ""): lambda: max(1 / FASTEST**2 / np.cumsum(1 / FASTEST)),
    ("Theorem B.12", ""): lambda: largest(shares.of_theorem_b_12, lone_runs()),
    ("Lemma C.2", ""): lambda: largest(shares.of_interval, of_loss(ShiftedLogistic(), 10**6)),
    ("Lemma C.7", ""): lambda: largest_without_best(
        shares.of_lemma_3_5, of_loss(ShiftedLogistic(), 10**6)
    ),
    ("(C.10)", ""): lambda: largest_without_best(shares.of_c_10, runs()),
    ("Lemma C.11", ""): lambda: (
        largest(shares.of_lower_norm, of_loss(ShiftedLogistic(), 10**6)),
        largest_without_best(shares.of_upper_norm, of_loss(ShiftedLogistic(), 10**6)),
    ),
    ("Lemma C.12", ""): lambda: largest_without_best(shares.of_lemma_c_12, runs()),
    ("(C.13)", ""): lambda: largest_without_best(shares.of_c_13, runs()),
    ("Lemma D.1", ""): lambda: least_share(sampled("lopsided").potential_failures, most(DELTA / 2)),
    ("Lemma D.2", ""): lambda: (
        of_d_2(sampled("lopsided")),
        least_share(sampled("noisy").norm_failures, most(DELTA / 2)),
    ),
}


def as_shown(power):
    """Two digits: 0.90, or 0.0029; of several constants, in their order."""
    if isinstance(power, tuple):
        return " and ".join(map(as_shown, power))
    return f"{power:.2f}" if power >= 0.095 else f"{power:.2g}"


def key_of(cells):
    """The entry of POWERS that a row of the page is, if any."""
    found = [key for key in POWERS if key[0] == cells[0] and cells[1].startswith(key[1])]
    return found[0] if found else None


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def rows_of(text):
    """The lines of the page, and for each row of the marked tables its place and key."""
    lines = text.split("\n")
    inside, rows = False, []
    for place, line in enumerate(lines):
        if line in (BEGIN, END):
            inside = line == BEGIN
        elif inside and line.startswith("| ") and not line.startswith("| paper |"):
            rows.append((place, key_of(cells_of(line))))
    return lines, rows


def write(page=PAGE):
    """Compute each power and write it into its row."""
    lines, rows = rows_of(page.read_text("utf-8"))
    for place, key in rows:
        shown = NOTHING if key is None else as_shown(POWERS[key]())
        cells = cells_of(lines[place])
        cells[COLUMN] = shown
        lines[place] = f"| {' | '.join(cells)} |"
        if key is not None:
            print(f"{' '.join(key).strip():40} {shown}")
    page.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Write the powers into the page.").parse_args()
    write()
