"""Where the units of an audit run: in worker processes of this machine, or on a cluster."""
