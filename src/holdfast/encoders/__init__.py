"""Where encoders come from: one file per source, reached by spec strings through `open_encoder`."""
