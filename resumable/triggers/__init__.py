"""Policies for when to save; policies compose with ``|`` and ``&``."""

from .base import Progress as Progress
from .base import Trigger as Trigger
from .rules import AtEnd as AtEnd
from .rules import AtSteps as AtSteps
from .rules import EverySeconds as EverySeconds
from .rules import EverySteps as EverySteps
from .rules import When as When
from .rules import every as every
from .signals import OnSignal as OnSignal
