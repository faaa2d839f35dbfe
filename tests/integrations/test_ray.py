"""Ray Data: actors that load the model once; one that is killed is started again, and no row is lost or doubled."""

import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from hf_structure import Annotator

pytestmark = pytest.mark.slow  # starts a cluster, which imports transformers anew: 30 s and more
pytest.importorskip("ray")

TEXTS = ["It rained. Nobody left.", "She saw the stars.", None, "The cat slept.", ""] * 8
SCRIPT = f"""
import os
import signal
import sys
from pathlib import Path

import ray
from hf_structure import Annotator

folder = Path(sys.argv[2])


class Dying(Annotator):
    def __call__(self, batch):
        (folder / f"actor-{{os.getpid()}}").touch()
        if 17 in list(batch["id"]) and not (folder / "killed").exists():
            (folder / "killed").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


ray.init(num_cpus=4, include_dashboard=False)
rows = ray.data.from_items([{{"id": number, "text": text}} for number, text in enumerate({TEXTS})]).repartition(8)
actors = ray.data.ActorPoolStrategy(size=2)
options = {{"model": sys.argv[1], "sentences": "split"}}
rows = rows.map_batches(Dying, fn_constructor_kwargs=options, batch_size=5, compute=actors, num_cpus=1)
rows.write_parquet(str(folder / "parsed"))
"""


def test_a_killed_actor_loses_no_row(tagger, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", SCRIPT, str(tagger), str(tmp_path)]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        assert process.wait(400) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    killed = (tmp_path / "killed").read_text()
    assert len({path.name for path in tmp_path.glob("actor-*")} - {f"actor-{killed}"}) == 2
    rows = pq.read_table(tmp_path / "parsed").sort_by("id").to_pydict()
    expected = Annotator(tagger, sentences="split")({"id": [*range(len(TEXTS))], "text": TEXTS})
    assert list(rows) == list(expected)
    for name in ("id", "text", "start", "forms", "heads", "relations", "error"):
        assert rows[name] == expected[name], name
