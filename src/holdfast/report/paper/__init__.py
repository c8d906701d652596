"""Figures for papers: the charts of a report on white ground, as files, with their numbers and captions."""
