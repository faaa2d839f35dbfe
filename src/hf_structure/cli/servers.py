"""`hf-structure mcp` and `hf-structure serve`."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from hf_structure.cli.common import MODEL_HELP, add_command, add_parsing, options_of, positive
from hf_structure.parsing.options import DEFAULT_SCORER

if TYPE_CHECKING:
    from hf_structure.parsing.parser import Parser


def add_mcp(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "mcp", "serve agents by the Model Context Protocol", run_mcp)
    _add_models(parser)


def run_mcp(options: argparse.Namespace) -> None:
    """
    Serves agents by the Model Context Protocol, on standard input and output, with the tools parse, score and compare.
    Agents give text; models and options are those of this command.
    """
    # Late: it imports torch, which takes seconds. Bad options are reported at once.
    from hf_structure.integrations.mcp import make_server

    make_server(*_load(options)).run()


def add_serve(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "serve", "serve programs by HTTP", run_serve)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port; default: %(default)s")
    limits = {
        "max_bytes": (2**17, "bytes of a request"),
        "timeout": (60, "seconds for a request"),
        "max_waiting": (1000, "requests of a kind that may wait; more are refused"),
    }
    for name, (default, help) in limits.items():
        parser.add_argument(
            f"--{name}", type=positive, default=default, metavar="N", help=f"{help}; default: {default}"
        )
    _add_models(parser)


def run_serve(options: argparse.Namespace) -> None:
    """
    Serves programs by HTTP. POST /parse and /score take {"inputs": [...]}, a list of texts or sentences, and answer
    with a list of parses or scores; GET /health and /metrics are for monitoring. Requests that wait are computed
    together.
    """
    # Late: it imports torch, which takes seconds. Bad options are reported at once.
    import uvicorn

    from hf_structure.integrations.serve import make_app

    app = make_app(*_load(options), options.max_bytes, options.timeout, options.max_waiting)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scorer", default=DEFAULT_SCORER, metavar="NAME", help=f"language model: {MODEL_HELP}; default: %(default)s"
    )
    add_parsing(parser)


def _load(options: argparse.Namespace) -> "tuple[Parser, Callable[[Any], Any]]":
    """Loads the parser and the scorer of a server, so that bad names and options are reported before it starts."""
    from hf_structure.parsing.parser import Parser
    from hf_structure.scoring.scoring import load_language_model, score

    if options.sentences == "line":
        raise ValueError("servers split texts into sentences: --sentences line is not for them")
    trust = options.trust_remote_code
    model, tokenizer = load_language_model(options.scorer, device=options.device, trust_remote_code=trust)
    return Parser(options.model, **options_of(options)), partial(cast(Any, score), model=model, tokenizer=tokenizer)
