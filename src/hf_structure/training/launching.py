"""How training is launched: each process has one device."""

import os
import sys

from transformers import TrainingArguments

WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # of torch, and of MPI


def check_launcher() -> None:
    """
    Raises `ValueError` if `accelerate launch` was asked for several processes and has started one alone.

    It does so on a CPU or one GPU: it names the address where they would meet, but gives them no numbers.
    """
    has_address = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ
    if has_address and not any(name in os.environ for name in WORLD_SIZES):
        raise ValueError(
            "`accelerate launch` was asked for several processes but has started one: without several GPUs, start N "
            f"processes by `torchrun --nproc_per_node N {sys.argv[0]} ...`, or one by `python {sys.argv[0]} ...`"
        )


def check_gpus(args: TrainingArguments) -> None:
    """Raises `ValueError` if there are several GPUs in this process: `Trainer` would share batches out by itself."""
    if args.n_gpu > 1:
        raise ValueError(
            f"training on {args.n_gpu} GPUs in one process is not possible: start a process for each by `accelerate "
            f"launch {sys.argv[0]} ...`, or choose one GPU by CUDA_VISIBLE_DEVICES=0"
        )
