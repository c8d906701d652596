"""Formulas written out from the text of the papers, with NumPy and SciPy alone: nothing of Holdfast is imported."""
