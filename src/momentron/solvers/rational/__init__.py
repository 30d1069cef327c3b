"""Rational arithmetic: what floats propose is made exact here, and what they cannot see is found.

systems   linear systems of whole numbers, solved exactly
padic     the larger ones, by Dixon's lifting
nearest   the nearest points of convex hulls, by Wolfe's algorithm
memory    how much of it exact numbers may take
"""
