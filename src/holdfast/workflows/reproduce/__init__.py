"""Tables and figures of papers, by one command: the published numbers beside ours, and what became of each claim."""
