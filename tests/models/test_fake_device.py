"""
The tests for a GPU, on a device that only pretends to be one, in a process of its own: every family, in half a minute.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

HERE = Path(__file__).parent


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"), reason="needs a later torch"
)
@pytest.mark.parametrize("pattern", ["test_gpu.py", pytest.param("test_modeling_*.py", marks=pytest.mark.slow)])
def test_models_on_a_fake_device(pattern):
    files = map(str, sorted(HERE.glob(pattern)))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "gpu", *files]
    environment = os.environ | {"HF_STRUCTURE_DEVICE": "fake"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
