"""Designs: what users pass (arrays, frames, formulas, fitted models, counts) as rows and labels."""

from momentron.designs.design import Design
from momentron.designs.reading import read_design

__all__ = ["Design", "read_design"]
