"""
An MCP server on standard input and output, by which agents parse and score sentences:

    hf-structure mcp --model rngt-en --scorer gilt-en

Its three tools take text alone. Models and options are chosen by whoever starts the server, not by the agent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

from hf_structure.integrations.server_scores import score_bounded
from hf_structure.parsing.parser import Parser
from hf_structure.version import __version__

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError as error:
    raise ImportError("this needs mcp: pip install 'hf_structure[mcp]'") from error

INSTRUCTIONS = "Parses text into trees, and scores sentences by a language model. Logarithms are natural."


@dataclass(frozen=True)
class Comparison:
    """
    The scores of two sentences.

    Args:
        likelier (`"first"`, `"second"` or `"neither"`): The sentence with the higher log-probability.
        difference (`float`): Log-probability of the first sentence, minus that of the second, in nats.
        first, second (`dict`): Their scores, as returned by the tool `score`.
    """

    likelier: Literal["first", "second", "neither"]
    difference: float
    first: dict[str, Any]
    second: dict[str, Any]


class Tools:
    """
    The tools of a server; their docstrings are the descriptions that agents read.

    Args:
        parser (`Parser`): Parses texts; it splits them into sentences.
        scorer (`Callable`): Scores a sentence or a list of them, see [`score`].
    """

    def __init__(self, parser: Parser, scorer: Callable[[Any], Any]):
        self._parser = parser
        self._scorer = scorer

    def parse(self, text: str) -> list[dict[str, Any]]:
        """
        Splits a text into sentences and parses each. Returns a list with an object for each sentence: its `words` and
        its structures. `dependency` has, for each word, the number of its head (`heads`, from 1; 0 is the root), its
        relation (`labels`), the probability of its arc (`probabilities`) and further predictions such as parts of
        speech and lemmas (`columns`). Models without dependencies have `constituency`, with `spans`, or `graph`, with
        `arcs`.
        """
        if not text.strip():
            raise ToolError("the text is empty: give at least one sentence")
        return self._parser(text).to_dict()

    def score(self, sentences: list[str]) -> list[dict[str, Any]]:
        """
        Scores sentences with a language model. Returns an object for each sentence: its `words`, their
        `word_surprisals` in nats, the `log_prob` of the whole and the `perplexity` per token.
        """
        if not sentences:
            raise ToolError("there are no sentences: give at least one")
        return score_bounded(self._scorer, self._parser.options.max_words, sentences)

    def compare(self, first: str, second: str) -> Comparison:
        """
        Scores two sentences, such as a minimal pair, with a language model. Returns which is `likelier`, the
        `difference` of their log-probabilities in nats (positive if the first is likelier), and the scores of both.
        """
        scores = self.score([first, second])
        difference = scores[0]["log_prob"] - scores[1]["log_prob"]
        likelier = "neither"
        if difference:
            likelier = "first" if difference > 0 else "second"
        return Comparison(likelier, difference, *scores)


def make_server(parser: Parser, scorer: Callable[[Any], Any]) -> MCPServer:
    """Makes a server with the tools `parse`, `score` and `compare`; `run()` serves standard input and output."""
    server = MCPServer("hf_structure", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(parser, scorer)
    for tool in (tools.parse, tools.score, tools.compare):
        server.add_tool(_with_tool_errors(tool))
    return server


def _with_tool_errors(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a tool so that the agent reads why its input is refused; the SDK hides other errors."""

    @wraps(tool)
    def call(**arguments: Any) -> Any:
        try:
            return tool(**arguments)
        except ValueError as error:
            raise ToolError(str(error)) from error

    return call
