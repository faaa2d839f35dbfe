"""How training is launched: each process has one device."""

import os
import sys
from typing import Any

from transformers import TrainingArguments

WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # of torch, and of MPI
UNSUPPORTED = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
FSDP = "ACCELERATE_USE_FSDP"


def check_launcher() -> None:
    """
    Raises `ValueError` if `accelerate launch` was asked for several processes and has started one alone, or for an
    engine that these scripts do not train with.

    It starts one process on a CPU or one GPU: it names the address where several would meet, but gives no ranks.
    """
    for variable, engine in UNSUPPORTED.items():
        if _is_on(variable):
            raise ValueError(
                f"`accelerate launch` was told to train with {engine}, which is not supported: let it shard the model "
                "by FSDP, as in examples/cluster/fsdp2.yaml, or choose another --config_file"
            )
    has_address = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ
    if has_address and not any(name in os.environ for name in WORLD_SIZES):
        raise ValueError(
            "`accelerate launch` was asked for several processes but has started one: without several GPUs, start N "
            f"processes by `torchrun --nproc_per_node N {sys.argv[0]} ...`, or one by `python {sys.argv[0]} ...`"
        )


def check_sharding(args: TrainingArguments) -> None:
    """
    Raises `ValueError` if a model is to be sharded on a CPU, where accelerate would train on with whole weights, or by
    the first version of FSDP, whose models cannot be evaluated.
    """
    if not args.fsdp and not _is_on(FSDP):
        return
    if args.use_cpu:
        raise ValueError(
            "FSDP needs GPUs: on a CPU, accelerate gives each process the whole model; start N processes without FSDP "
            f"by `torchrun --nproc_per_node N {sys.argv[0]} ...`"
        )
    config: Any = args.fsdp_config  # a dictionary by now
    version = config.get("version", 2) if args.fsdp else os.environ.get("FSDP_VERSION", 1)
    if int(version) == 1:
        raise ValueError(
            "a model that version 1 of FSDP shards cannot be evaluated: give version 2, in --fsdp_config, or as "
            "fsdp_version in the configuration of `accelerate launch`"
        )


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() == "true"


def check_gpus(args: TrainingArguments) -> None:
    """Raises `ValueError` if there are several GPUs in this process: `Trainer` would share batches out by itself."""
    if args.n_gpu > 1:
        raise ValueError(
            f"training on {args.n_gpu} GPUs in one process is not possible: start a process for each by `accelerate "
            f"launch {sys.argv[0]} ...`, or choose one GPU by CUDA_VISIBLE_DEVICES=0"
        )
