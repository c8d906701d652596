"""Chosen measures along somebody's training: a function, a monitor of Holdfast's own loop, a Lightning callback."""

from holdfast.monitoring.along import AuditMonitor, monitors_of
from holdfast.monitoring.callback import HoldfastCallback
from holdfast.monitoring.look import Look, look, measures_of, monitor

__all__ = ["AuditMonitor", "HoldfastCallback", "Look", "look", "measures_of", "monitor", "monitors_of"]
