"""Chosen measures along somebody's training: a function, a monitor of Holdfast's own loop, a Lightning callback."""

from holdfast.workflows.monitor.callback import HoldfastCallback
from holdfast.workflows.monitor.snapshot import Look, look, measures_of, monitor
from holdfast.workflows.monitor.training_monitor import AuditMonitor, monitors_of

__all__ = ["AuditMonitor", "HoldfastCallback", "Look", "look", "measures_of", "monitor", "monitors_of"]
