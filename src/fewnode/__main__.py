"""``python -m fewnode`` is the same as ``fewnode``."""

import sys

from .cli import main

sys.exit(main())
