"""Separability: verdicts with proofs in exact arithmetic, which `momentron.verify` checks."""

from momentron.separability.check import check_separability
from momentron.separability.class_pairs import BoundaryPair, ClassPair
from momentron.separability.designs import Design, read_design
from momentron.separability.estimate_table import Estimate
from momentron.separability.features import FeatureRole, feature_roles
from momentron.separability.verdict import ConflictRow, Verdict

__all__ = [
    "BoundaryPair",
    "ClassPair",
    "ConflictRow",
    "Design",
    "Estimate",
    "FeatureRole",
    "Verdict",
    "check_separability",
    "feature_roles",
    "read_design",
]
