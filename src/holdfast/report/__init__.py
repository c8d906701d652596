"""The viewer: reads the record and the tables, never an encoder."""
