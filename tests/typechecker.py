"""The run-time type checker of the tests: annotations and array shapes of holdfast are enforced at every call."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as PEP 484 says
