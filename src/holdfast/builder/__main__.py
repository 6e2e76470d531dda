"""Entry point for ``python -I .../builder/__main__.py``, which has no folder of ours on its path."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
__package__ = "builder"

from .conversation import main

sys.exit(main())
