"""Sharded training: two processes, each with half of every weight, learn what one does."""

import pytest
import torch
import torch.multiprocessing
from test_modeling_rng_transformer import tiny_model
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.testing import assert_close

from hf_structure.modules.graph_transformer import GraphTransformerLayer

SENTENCES = {
    "input_ids": torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]),
    "heads": torch.tensor([[2, 0, 2, 3], [0, 1, 2, 3], [2, 3, 4, 0], [3, 3, 0, 3]]),
    "labels": torch.tensor([[0, 1, 2, 0], [1, 2, 2, 0], [0, 0, 2, 1], [2, 0, 1, 2]]),
}


def train(model, batch: dict[str, torch.Tensor], share: float = 1.0) -> list[torch.Tensor]:
    """Losses of some steps; `share` is that of this process in a mean over processes."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(**batch, num_items_in_batch=16 * share).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def sharded(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh, model = init_device_mesh("cpu", (2,)), tiny_model()
    for module in model.modules():
        if isinstance(module, GraphTransformerLayer):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, "decode")
    assert all(p.to_local().numel() < p.numel() for p in model.parameters() if p.shape[0] > 1)
    own = {name: rows[2 * rank : 2 * rank + 2] for name, rows in SENTENCES.items()}
    losses = torch.stack(train(model.train(), own, share=0.5))
    distributed.all_reduce(losses)
    heads = model.eval().decode(SENTENCES["input_ids"]).heads
    if rank == 0:
        torch.save({"losses": losses / 2, "heads": heads}, f"{folder}/result.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_with_sharded_weights_learn_what_one_does(tmp_path):
    torch.multiprocessing.spawn(sharded, args=(str(tmp_path),), nprocs=2)
    result, model = torch.load(tmp_path / "result.pt"), tiny_model()
    assert_close(result["losses"], torch.stack(train(model.train(), SENTENCES)), atol=1e-4, rtol=1e-4)
    assert_close(result["heads"], model.eval().decode(SENTENCES["input_ids"]).heads)
