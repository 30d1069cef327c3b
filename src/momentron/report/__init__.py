"""A report on one data set: a single page that needs no network, no scripts and no matplotlib."""

from momentron.report.findings import Findings, examine
from momentron.report.page import render

__all__ = ["Findings", "examine", "render"]
