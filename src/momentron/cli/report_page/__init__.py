"""A report on one data set: a single page that needs no network, no scripts and no matplotlib."""

from momentron.cli.report_page.findings import Findings, examine
from momentron.cli.report_page.page import render

__all__ = ["Findings", "examine", "render"]
