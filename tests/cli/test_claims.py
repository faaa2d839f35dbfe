"""Claims: one worker alone gets a piece of work, and what a dead one held is done by another."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hf_structure.cli import claims as claims_module
from hf_structure.cli.claims import Claims, has_ended, this_process

LONG = 3600.0


@pytest.fixture
def new(tmp_path):
    """Makes workers, which share a folder."""
    return lambda expiry=LONG: Claims(tmp_path / "claims", expiry)


def age(claims: Claims, claim, seconds: float) -> None:
    """Turns back the time at which a claim was renewed."""
    then = time.time() - seconds
    os.utime(claims.folder / claim.file, (then, then))


def test_only_one_gets_a_claim(new):
    one = new()
    other = new()
    claim = one.take("7")
    assert other.take("7") is None
    assert other.take("7", other.find()["7"]) is None
    assert one.is_held(claim)
    one.release(claim)
    assert not one.is_held(claim)
    assert other.take("7") == claim


def test_one_takes_an_expired_claim_over(new):
    dead = new()
    claim = dead.take("7")
    age(dead, claim, LONG + 60)
    workers = [new() for _ in range(8)]
    # All have seen the expired claim before one of them takes it over.
    seen = [worker.find()["7"] for worker in workers]
    taken = [worker.take("7", each) for worker, each in zip(workers, seen, strict=True)]
    assert [each for each in taken if each is not None] == [claim._replace(generation=1)]
    assert not dead.is_held(claim)
    assert workers[0].is_held(taken[0])


def test_many_at_once_share_the_work_out(new):
    """Every piece is done once, also if some are taken and never done."""
    count = 60
    done: list[int] = []
    lock = threading.Lock()
    dead = new()
    for number in (3, 4, 50):
        age(dead, dead.take(str(number)), LONG + 60)

    def work(claims: Claims) -> None:
        while (claim := claims.next(range(count), lambda: set(done))) is not None:
            with claims.holding(claim):
                time.sleep(0.001)
                with lock:
                    done.append(int(claim.name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [new() for _ in range(8)]))
    assert sorted(done) == list(range(count))


def test_what_was_done_meanwhile_is_not_done_again(new):
    """A worker looks; another one takes, does and releases; the first one takes."""
    answers = iter([set(), {0}, {0}])
    assert new().next([0], lambda: next(answers)) is None


def test_a_claim_is_renewed_while_it_is_held(new):
    claims = new()
    claims.renewed_every = 0.01
    other = new()
    claim = claims.take("7")
    age(claims, claim, LONG + 60)
    assert other.has_expired(claim)
    with claims.holding(claim):
        while other.has_expired(claim):
            time.sleep(0.01)
    assert other.find() == {}


def test_one_worker_stands_by_and_others_leave(new, monkeypatch):
    monkeypatch.setattr(claims_module, "LONGEST_PAUSE", 0.01)
    holder = new()
    claim = holder.take("0")
    done: set[int] = set()
    with ThreadPoolExecutor(1) as pool:
        standby = new()
        waiting = pool.submit(standby.next, [0], lambda: done)
        while "standby-0" not in standby.find():
            time.sleep(0.01)
        assert new().next([0], lambda: done) is None
        assert not waiting.done()
        age(holder, claim, LONG + 60)
        assert waiting.result(60) == claim._replace(generation=1)


def test_a_claim_of_a_process_of_this_machine_that_has_ended(new):
    claims = new()
    claim = claims.take("7")
    assert not new().has_expired(claim)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    ended = f"{this_process().rpartition(' ')[0]} {child}"
    (claims.folder / claim.file).write_text(ended)
    assert new().has_expired(claim)
    assert not has_ended(f"elsewhere {child}")
    assert not has_ended("")


def test_the_work_is_over_when_its_folder_is_gone(new):
    claims = new()
    claim = claims.take("7")
    for path in claims.folder.iterdir():
        path.unlink()
    claims.folder.rmdir()
    assert claims.take("8") is None
    assert claims.find() == {}
    assert not claims.is_held(claim)
    claims.release(claim)
    claims.close()
