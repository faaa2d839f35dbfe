"""Evaluation in a training of two processes, each with half of every weight: what a whole model scores."""

import os
from pathlib import Path

import pytest
import torch.multiprocessing
from accelerate import FullyShardedDataParallelPlugin
from accelerate.utils import DistributedType
from test_trainers import arguments, tiny_parser, trees
from torch import distributed
from torch.distributed.fsdp import FSDPModule

from hf_structure.corpora.collators import ParsingCollator
from hf_structure.training.trainers.parsing import ParsingTrainer

SHARDING = {"fsdp_version": 2, "auto_wrap_policy": "transformer_based_wrap"}
SHARDING["transformer_cls_names_to_wrap"] = ["GraphTransformerLayer"]


def trainer_of(folder: str | Path) -> ParsingTrainer:
    """Its evaluation has batches of sentences of different lengths, which take more or fewer steps."""
    settings = {"num_train_epochs": 3, "eval_strategy": "epoch", "learning_rate": 0.005, "optim": "sgd"}
    settings["lr_scheduler_type"] = "constant"  # so that the last epoch still learns
    return ParsingTrainer(
        model=tiny_parser(),
        args=arguments(folder, **settings),
        train_dataset=trees(24),
        eval_dataset=trees(13),
        data_collator=ParsingCollator(1),
        max_tokens=20,
    )


def scores(trainer: ParsingTrainer) -> list[list[float]]:
    names = ("eval_uas", "eval_las", "eval_uas_no_punct", "eval_las_no_punct")
    return [[entry[name] for name in names] for entry in trainer.state.log_history if names[0] in entry]


def sharded(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ["MASTER_ADDR"] = "localhost"  # nobody asks there: they meet in a file
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    trainer = trainer_of(folder)
    state = trainer.accelerator.state  # on a CPU accelerate shards nothing if it is not made to
    state.distributed_type, trainer.is_fsdp_enabled = DistributedType.FSDP, True
    state.fsdp_plugin = FullyShardedDataParallelPlugin(**SHARDING)
    trainer.train()
    parts = [module for module in trainer.model.modules() if isinstance(module, FSDPModule)]
    assert len(parts) > 1
    assert all(p.to_local().numel() < p.numel() for p in trainer.model.parameters() if p.shape[0] > 1)
    weights = {name: parameter.full_tensor() for name, parameter in trainer.model.named_parameters()}
    if rank == 0:
        torch.save({"scores": scores(trainer), "weights": weights}, f"{folder}/result.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_with_sharded_weights_score_what_one_does(tmp_path):
    torch.multiprocessing.spawn(sharded, args=(str(tmp_path),), nprocs=2)
    result, one = torch.load(tmp_path / "result.pt"), trainer_of(tmp_path)
    one.model.load_state_dict(result["weights"])
    one.evaluate()
    assert len({tuple(row) for row in result["scores"]}) == 3  # it has learned
    assert result["scores"][-1] == scores(one)[0]
