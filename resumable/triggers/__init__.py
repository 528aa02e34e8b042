"""Policies for when to save; policies compose with ``|`` and ``&``."""

from .base import Progress as Progress
from .base import Trigger as Trigger
from .end import AtEnd as AtEnd
from .every import every as every
from .seconds import EverySeconds as EverySeconds
from .signals import OnSignal as OnSignal
from .steps import AtSteps as AtSteps
from .steps import EverySteps as EverySteps
from .when import When as When
