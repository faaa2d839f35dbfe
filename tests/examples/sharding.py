"""Training with sharded weights in two processes on a CPU, where accelerate shards nothing unless it is made to."""

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_multi_gpu_env
from running import fork
from torch import distributed

from hf_structure.training.examples import EXAMPLES

LONGEST = 900  # seconds, after which a process that waits for the other one shows where


def launched(config: str, *options: str) -> dict[str, str]:
    """Variables that `accelerate launch` adds for the processes of a configuration in `examples/cluster`."""
    parser = launch_command_parser()
    parsed = parser.parse_args(["--config_file", str(EXAMPLES / "cluster" / config), *options, "run_x.py"])
    args, *_ = _validate_launch_command(parsed)
    return {name: value for name, value in prepare_multi_gpu_env(args).items() if os.environ.get(name) != value}


def shard(patch: pytest.MonkeyPatch) -> None:
    """Makes accelerate shard on a CPU as on GPUs, and the scripts let it."""
    new_state = AcceleratorState.__init__

    def sharding(state: AcceleratorState, *args, fsdp_plugin=None, **kwargs) -> None:
        new_state(state, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None:
            state.fsdp_plugin = fsdp_plugin
            state.distributed_type = DistributedType.FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP  # which each new state begins with

    patch.setattr(AcceleratorState, "__init__", sharding)
    patch.setattr("hf_structure.training.arguments.check_sharding", lambda args: None)


def run_two(function: Callable[[], None], folder: Path, variables: dict[str, str]) -> None:
    """
    Runs a function in two processes that meet as those of torchrun do. They are copies of this process, and need not
    import what is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    children = []
    for rank in range(2):
        child = fork()
        if child == 0:
            _run_one(function, folder, rank, variables)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0, 0], "\n".join((folder / f"log-{rank}").read_text()[-3000:] for rank in range(2))


def _run_one(function: Callable[[], None], folder: Path, rank: int, variables: dict[str, str]) -> None:
    code = 1
    sys.stdout = sys.stderr = (folder / f"log-{rank}").open("w", buffering=1)
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=sys.stderr)
    try:
        os.environ |= {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        os.environ |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}  # nobody asks there: they meet in a file
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
        function()
        distributed.destroy_process_group()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
