"""`python -m resumable` is the `resumable` command."""

import sys

from .cli.main import main

sys.exit(main())
