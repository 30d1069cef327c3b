"""The rows of Z: an example each, or an example and a wrong label; with slack or not."""

from momentron.constraints.base import Constraints
from momentron.constraints.label_pairs import LabelPairs
from momentron.constraints.signed_rows import SignedRows
from momentron.constraints.slack import Slack

__all__ = ["Constraints", "LabelPairs", "SignedRows", "Slack"]
