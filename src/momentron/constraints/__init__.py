"""The rows of Z: an operator seen through labels; with slack or not."""

from momentron.constraints.constraints import Constraints
from momentron.constraints.slack import Slack

__all__ = ["Constraints", "Slack"]
