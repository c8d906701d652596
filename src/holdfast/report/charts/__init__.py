"""Charts of a record, drawn: one file for each way to draw, `sections` for what a record asks to have drawn."""
