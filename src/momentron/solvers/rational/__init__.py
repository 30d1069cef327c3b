"""Rational arithmetic: what floats propose is made exact here, and what they cannot see is found."""
