"""Rational arithmetic: what floats propose is made exact, and what they do not see is found."""
