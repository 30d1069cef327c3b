"""Designs: what users pass (arrays, frames, formulas, fitted models, counts) as rows and labels."""

from momentron.separability.designs.design import Design
from momentron.separability.designs.reading import read_design

__all__ = ["Design", "read_design"]
