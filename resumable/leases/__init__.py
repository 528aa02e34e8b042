"""Items handed out as leases, finished in any order, and counted once they are done."""

from __future__ import annotations

from .leases import Lease as Lease
from .leases import LeaseCounts as LeaseCounts
from .leases import Leases as Leases
