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
    picture     an interval as people see it: ends rounded outward, and drawn
"""

from momentron.certificate.bounds import certify, certify_margin, classifier_bounds
from momentron.certificate.certified import Certificate, admitted, read_only, relative_gap

__all__ = [
    "Certificate",
    "admitted",
    "certify",
    "certify_margin",
    "classifier_bounds",
    "read_only",
    "relative_gap",
]
