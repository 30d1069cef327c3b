"""The kernel of trust: the only code that can make a `Certificate`.

As in a theorem prover of the LCF family, where only the kernel makes theorems: solvers, however
clever or hostile, propose a pair (w, q), and what is claimed of it is computed here from the data,
whether its rows are in memory or come in blocks.
A bad proposal can loosen the interval, never falsify it.

    certified   the certificate itself, which cannot hold NaN or crossed ends; what a solver hands
                in is copied, and its shape and type are checked
    bounds      sure bounds from a pair (w, q), computed from the data with all rounding counted
    exact       the same without rounding, from a pair in whole numbers
    hinge       the same for the soft margin with the plain hinge, from a pair (w, b) and α
    passes      the same for rows in blocks: what a pass over them shows of a classifier
    evidence    what passes have proved, of classifiers and of sums of weights
    picture     an interval as people see it: ends rounded outward, and drawn
"""

from momentron.certificate.bounds import (
    LONG,
    SHORT,
    certify,
    certify_margin,
    classifier_bounds,
    deciding_rows_in_double,
    recomputed,
    scores_in_double,
    to_safe_length,
)
from momentron.certificate.certified import (
    MOST_BITS,
    Certificate,
    admitted,
    read_only,
    relative_gap,
)
from momentron.certificate.evidence import BlockWeights, Evidence
from momentron.certificate.exact import takes_whole_numbers, whole_numbers
from momentron.certificate.hinge import box_weights, certify_hinge, objective_bound
from momentron.certificate.passes import ArcScores, Findings

__all__ = [
    "LONG",
    "MOST_BITS",
    "SHORT",
    "ArcScores",
    "BlockWeights",
    "Certificate",
    "Evidence",
    "Findings",
    "admitted",
    "box_weights",
    "certify",
    "certify_hinge",
    "certify_margin",
    "classifier_bounds",
    "deciding_rows_in_double",
    "objective_bound",
    "read_only",
    "recomputed",
    "relative_gap",
    "scores_in_double",
    "takes_whole_numbers",
    "to_safe_length",
    "whole_numbers",
]
