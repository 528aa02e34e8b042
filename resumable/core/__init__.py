"""What a stage is and how items move; the kit of who writes a stage."""

from __future__ import annotations

from ..state.value import State as State
from ..state.value import freeze as freeze
from ..state.value import unpack as unpack
from ..state.value import unpack_count as unpack_count
from .arguments import check_bool as check_bool
from .arguments import check_callable as check_callable
from .arguments import check_choice as check_choice
from .arguments import check_int as check_int
from .arguments import check_seed as check_seed
from .block import Block as Block
from .block import Indices as Indices
from .block import block_items as block_items
from .block import block_length as block_length
from .combine import Combine as Combine
from .combine import CombineIterator as CombineIterator
from .indexed import IndexedIterator as IndexedIterator
from .stage import Stage as Stage
from .stage_iterator import StageIterator as StageIterator
from .transform import CountingIterator as CountingIterator
from .transform import IndexedTransform as IndexedTransform
from .transform import Transform as Transform
from .transform import TransformIterator as TransformIterator
