"""Liars, random problems, interrupts, damaged files and odd machines against exact answers."""
