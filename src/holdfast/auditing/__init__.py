"""Plan, observe, score, record: what `holdfast.audit` and the command of the same name run."""
