"""`python -m lila`."""

import sys

from lila.cli import main

sys.exit(main())
