"""
A step for pipelines of datatrove, which read, write and distribute: on one machine, with Slurm or with Ray.

    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from hf_structure.integrations.datatrove import Annotate, uncopied

    steps = [JsonlReader("texts"), Annotate("rngt-en-fast", dtype="int8"), JsonlWriter("parses", adapter=uncopied)]
    LocalPipelineExecutor(steps, tasks=64, workers=8, logging_dir="logs").run()

The parses of a document are added to its metadata. With `uncopied`, writers do not copy them first.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hf_structure.parsing.annotator import Annotator, Format
from hf_structure.parsing.options import DEFAULT_PARSER, check_number

try:
    from datatrove.data import Document
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.writers.disk_base import DiskWriter
    from datatrove.utils.batching import batched
except ImportError as error:
    raise ImportError("this needs datatrove: pip install 'hf_structure[datatrove]'") from error


class Annotate(PipelineStep):
    """
    Parses the texts of documents and adds the columns of an [`Annotator`] to their metadata, each with the document's
    value. The statistics of the step count as `errors` the documents with an error, and sentences and words, unless
    they are written as CoNLL-U.

    Args:
        model (`str` or `Path`, defaults to `"rngt-en"`): Short name, folder or Hub name of a model.
        documents (`int`, defaults to 256): Number of documents that are parsed, and held in memory, at once.
        format (`"columns"` or `"conllu"`, defaults to `"columns"`): The columns, see [`Annotator`].
        options: See [`ParseOptions`].

    Attributes:
        annotator (`Annotator`): Its `schema()` has the types of the columns.

    Raises:
        TypeError, ValueError: See [`Annotator`].
    """

    name = "🌳 Annotate"
    type = "🏷 - ANNOTATOR"
    _requires_dependencies = ["torch", "transformers"]

    def __init__(
        self,
        model: str | Path = DEFAULT_PARSER,
        *,
        documents: int = 256,
        format: Format = "columns",
        **options: Any,
    ):
        super().__init__()
        check_number("documents", documents)
        self.documents = documents
        self.annotator = Annotator(model, format=format, **options)

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yields the documents of a task with their parses."""
        for batch in batched(data, self.documents):
            with self.track_time("batch"):
                columns = self.annotator({"text": [document.text for document in batch]})
            for index, document in enumerate(batch):
                row = {name: columns[name][index] for name in self.annotator.columns}
                document.metadata.update(row)
                self._count(row)
                yield document

    def _count(self, row: dict[str, Any]) -> None:
        """Adds a document to the statistics."""
        if row["error"] is not None:
            self.stat_update("errors")
        if "forms" in row:
            self.stat_update("sentences", value=len(row["forms"]), unit="doc")
            self.stat_update("words", value=sum(map(len, row["forms"])), unit="doc")


def uncopied(writer: DiskWriter, document: Document) -> dict[str, Any]:
    """
    Returns the same row as the default adapter of datatrove's writers, for `adapter=`. That one copies every list of
    the metadata, which takes as long as compressing them.
    """
    if document.media:
        return writer._default_adapter(document)
    row = {"text": document.text, "id": document.id, "metadata": document.metadata}
    row = {name: value for name, value in row.items() if value}
    return row | row.pop("metadata", {}) if writer.expand_metadata else row
