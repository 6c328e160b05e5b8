import sys
from types import ModuleType

import pytest
import torch
from hypothesis import settings

# No deadline: tests are never about time. The same examples each time: a failure must be seen again by whoever looks.
settings.register_profile("lila", deadline=None, derandomize=True)
settings.load_profile("lila")

torch.set_num_threads(1)  # here, as fixtures of a whole session come before those of a test


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)  # a command may have asked for more
    torch.manual_seed(0)


pytest_plugins = ["commands", "report_fixtures"]

# Lightning's torchmetrics imports torchvision, whose operators may be built for another torch; no test needs them.
sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
