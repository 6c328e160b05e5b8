"""`python -m lila`."""

import os
import sys

from lila.cli import main

code = main()
if "RANK" in os.environ:  # one of several processes, started by torchrun
    from lila._util.ranks import leave

    leave(code)
sys.exit(code)
