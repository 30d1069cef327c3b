"""Data on their way in: arguments, arrays and tables that arrive exactly, files handled safely."""
