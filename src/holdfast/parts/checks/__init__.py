"""Ways in which an audit could mislead, one per file: the validity panel."""
