"""Benchmarks of Holdfast; see README.md. They keep freed memory, as commands do, and so do the peers beside them."""

from holdfast.runtime.freed_memory import keep_freed_memory

keep_freed_memory()
