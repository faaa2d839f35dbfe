"""
An HTTP server, as an ASGI application: `hf-structure serve --model rngt-en --scorer gilt-en`.

`POST /parse` and `/score` take `{"inputs": [...]}`, a list of texts or sentences, and answer with a list as long. What
waits is computed together. `GET /health` answers at once; `GET /metrics` counts requests, in Prometheus' text format.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, islice
from typing import Any

from hf_structure.integrations.server_scores import score_bounded
from hf_structure.parsing.parser import Parser

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise ImportError("this needs starlette: pip install 'hf_structure[serve]'") from error

MANY = 64  # requests of a batch
Waiting = tuple[list[str], asyncio.Future]


class Queue:
    """
    Requests that wait for one function, which computes them together in a thread of its own. It returns as many
    results as it gets inputs, and raises `ValueError` for a bad one. At most `max_waiting` requests wait.
    """

    def __init__(self, compute: Callable[[list[str]], list[Any]], max_waiting: int):
        self.compute = compute
        self.max_waiting = max_waiting
        self.batches = 0
        self.waiting: deque[Waiting] = deque()
        self.arrived = asyncio.Event()

    async def ask(self, inputs: list[str]) -> list[Any]:
        """Returns the results of a request. Raises 503 if too many requests wait."""
        if len(self.waiting) >= self.max_waiting:
            raise HTTPException(503, "too many requests wait: try again later", {"Retry-After": "1"})
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((inputs, future))
        self.arrived.set()
        return await future

    async def work(self) -> None:
        """Answers requests until it is cancelled."""
        with ThreadPoolExecutor(1) as thread:
            while await self.arrived.wait():
                batch = self._next_batch()
                self.batches += bool(batch)
                answers = await asyncio.get_running_loop().run_in_executor(thread, self._answers, batch)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():  # it has not timed out meanwhile
                        (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)

    def _next_batch(self) -> list[Waiting]:
        """Takes requests from the front of the queue, without those that have timed out."""
        count = min(len(self.waiting), MANY)
        batch = [self.waiting.popleft() for _ in range(count)]
        if not self.waiting:
            self.arrived.clear()
        return [(inputs, future) for inputs, future in batch if not future.done()]

    def _answers(self, batch: list[Waiting]) -> list[Any]:
        """Computes the answers of several requests: each a list of results, or an error."""
        try:
            results = iter(self.compute(list(chain.from_iterable(inputs for inputs, _ in batch))))
            return [list(islice(results, len(inputs))) for inputs, _ in batch]
        except Exception as error:
            # A request that fails must not fail the others.
            return [error] if len(batch) == 1 else [self._answers([request])[0] for request in batch]


def make_app(
    parser: Parser, scorer: Callable[[Any], Any], max_bytes: int = 2**17, timeout: float = 60, max_waiting: int = 1000
) -> Starlette:
    """
    Makes the application. The parser splits texts into sentences; the scorer is [`score`] with its options. A request
    has at most `max_bytes` and an answer within `timeout` seconds; of each kind, at most `max_waiting` wait.
    """
    queues = {
        "/parse": Queue(lambda texts: parser(texts).to_dict(), max_waiting),
        "/score": Queue(partial(score_bounded, scorer, parser.options.max_words), max_waiting),
    }
    counts: Counter[tuple[str, int]] = Counter()

    async def answer(request: Request) -> Response:
        path = request.url.path
        try:
            async with asyncio.timeout(timeout):
                response = JSONResponse(await queues[path].ask(await _inputs(request, max_bytes)))
        except TimeoutError:
            response = JSONResponse({"error": f"no answer within {timeout} seconds"}, 504)
        except HTTPException as error:
            response = JSONResponse({"error": error.detail}, error.status_code, error.headers)
        except ValueError as error:
            response = JSONResponse({"error": str(error)}, 422)
        counts[path, response.status_code] += 1
        return response

    async def metrics(_: Request) -> Response:
        lines = [f'requests_total{{path="{path}",status="{code}"}} {n}' for (path, code), n in counts.items()]
        for path, queue in queues.items():
            lines.append(f'batches_total{{path="{path}"}} {queue.batches}')
            lines.append(f'waiting_requests{{path="{path}"}} {len(queue.waiting)}')
        return PlainTextResponse("".join(f"hf_structure_{line}\n" for line in lines))

    @asynccontextmanager
    async def working(_: Starlette) -> AsyncIterator[None]:
        workers = [asyncio.create_task(queue.work()) for queue in queues.values()]
        yield
        for worker in workers:
            worker.cancel()

    routes = [Route(path, answer, methods=["POST"]) for path in queues]
    routes += [Route("/health", lambda _: JSONResponse({"status": "ok"})), Route("/metrics", metrics)]
    return Starlette(routes=routes, lifespan=working)


async def _inputs(request: Request, max_bytes: int) -> list[str]:
    """Reads the body of a request. Raises 413 if it is too long, and 400 if it is not as documented."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise HTTPException(413, f"the request has more than {max_bytes} bytes")
    try:
        inputs = json.loads(body)["inputs"]
    except (ValueError, TypeError, KeyError, RecursionError):
        inputs = None
    if not isinstance(inputs, list) or not all(isinstance(text, str) for text in inputs):
        raise HTTPException(400, 'the request must be JSON, {"inputs": [...]} with a list of strings')
    return inputs
