"""Separability: verdicts with proofs in exact arithmetic, which `momentron.verify` checks."""

from momentron.separability.check import check_separability
from momentron.separability.designs import Design, read_design
from momentron.separability.features import FeatureRole, feature_roles
from momentron.separability.proof_facts import BoundaryPair, ClassPair, ConflictRow, Estimate
from momentron.separability.verdict import Verdict

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
