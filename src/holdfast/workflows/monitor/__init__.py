"""Chosen measures along somebody's training: a function, a monitor of Holdfast's own loop, a Lightning callback."""

from holdfast.workflows.monitor.callback import HoldfastCallback
from holdfast.workflows.monitor.snapshot import Look, look, monitor
from holdfast.workflows.monitor.training_monitor import AuditMonitor

__all__ = ["AuditMonitor", "HoldfastCallback", "Look", "look", "monitor"]
