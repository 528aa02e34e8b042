"""Policies that say when to save; they compose with ``|`` and ``&``."""

from .base import Progress as Progress
from .base import Trigger as Trigger
from .seconds import EverySeconds as EverySeconds
from .steps import EverySteps as EverySteps
