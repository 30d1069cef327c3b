"""The classifier for data that nothing separates: logistic regression on standardised columns.

A margin says nothing about such data: the classifier with the least negative margin follows a few
outliers. What is wanted instead is a classifier that errs rarely, on rows not seen yet as well. One
is computed here, for two classes or many, with or without intercepts, dense, sparse or through a
kernel, from a sample where rows are many:

    min  C Σ_i ln(1 + exp(−y_i f(x_i))) + ½‖v‖²,   f(x) = v·(x − c)/s + b,

with c the columns' means and s their deviations, so that no column counts more for being written in
smaller units. With many classes the loss is that of the softmax. C is in proportion to
1/mean‖(x − c)/s‖². The minimiser is found by L-BFGS in variables in which the sample is white.
"""

from momentron.fitting.fallback.fitting import (
    Candidate,
    Classifier,
    fallback,
    fallback_against_rest,
)
from momentron.fitting.fallback.settings import FallbackSettings

__all__ = ["Candidate", "Classifier", "FallbackSettings", "fallback", "fallback_against_rest"]
