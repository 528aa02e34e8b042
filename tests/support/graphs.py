"""The catalogue of pipelines with every source and stage, and what its pipelines are made of."""

from __future__ import annotations

from typing import Any

import resumable as rs
from resumable.testing.samples import Counter as Counter
from resumable.testing.samples import any_dtype as any_dtype
from resumable.testing.samples import columns as columns
from resumable.testing.samples import stream as stream
from resumable.testing.samples import with_noise as with_noise

from .catalogue import SHARE_AN_OBJECT as SHARE_AN_OBJECT
from .catalogue import catalogue as catalogue
from .catalogue import write_data as write_data
from .samples import Dice as Dice
from .samples import Loader as Loader
from .samples import Point as Point
from .samples import RunningSum as RunningSum
from .samples import SummedBatches as SummedBatches
from .samples import Torchlike as Torchlike
from .samples import UpTo as UpTo
from .samples import document as document
from .samples import double as double
from .samples import fails_on_thirds as fails_on_thirds
from .samples import inputs_and_targets as inputs_and_targets
from .samples import noise_but_thirds as noise_but_thirds
from .samples import running as running
from .samples import texts as texts


def six_stages(count: int, batch_size: int, batches: int) -> rs.Pipeline[Any]:
    """Six stages with random access, over ``count`` items."""
    return rs.range(count).shuffle(0).map(abs).batch(batch_size).repeat().take(batches)
