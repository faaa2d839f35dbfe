"""Parses as rows of a table with one sentence per row, such as a Parquet file or a data set."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

    from hf_structure.structures.parse import Parse

# Names of Arrow's types. Columns of words hold a list for each sentence.
SENTENCE_COLUMNS = {"id": "string", "start": "int64"}
WORD_COLUMNS = {
    "forms": "string",
    "lemmas": "string",
    "upos": "string",
    "xpos": "string",
    "feats": "string",
    "heads": "int32",
    "relations": "string",
    "probabilities": "float32",
}
PARSE_COLUMNS = (*SENTENCE_COLUMNS, *WORD_COLUMNS)


def parse_columns(parse: "Parse") -> dict[str, Any]:
    """
    Returns the row of a sentence, with the keys `PARSE_COLUMNS`.

    `id` is its `sent_id`, if it has one, and `start` its offset in the text. The others are lists with a value for
    each word: heads count words from 1, and 0 is the root; features are written as in CoNLL-U. A value is None for a
    word that the model did not see, or that has several heads in a graph, and a column for a model that does not
    predict it.
    """
    tree = parse.dependency
    if tree is None:
        words = list(parse)
        values: dict[str, Any] = {"forms": [word.form for word in words]}
        if parse.graph is not None:
            values["heads"] = [word.head for word in words]
            values["relations"] = [word.relation for word in words]
            values["probabilities"] = [word.probability for word in words]
    else:
        # Taken from the tree: making a `Word` of each word takes a sixth of the time of a fast parser.
        values = {"forms": tree.words, "heads": tree.heads, "relations": tree.labels}
        values |= {"probabilities": tree.probabilities, "lemmas": tree.columns.get("lemma")}
        values |= {name: tree.columns.get(name) for name in ("upos", "xpos", "feats")}
    columns = {name: _listed(values.get(name)) for name in WORD_COLUMNS}
    return {"id": parse.metadata.get("sent_id"), "start": parse.start, **columns}


def _listed(values: Any) -> list | None:
    return None if values is None else list(values)


def parse_schema() -> "pyarrow.Schema":
    """Returns the Arrow schema of `parse_columns`. Raises `ImportError` without pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("tables of parses need pyarrow: pip install 'hf_structure[tables]'") from error
    named = pyarrow.type_for_alias
    fields = {name: named(kind) for name, kind in SENTENCE_COLUMNS.items()}
    fields |= {name: pyarrow.list_(named(kind)) for name, kind in WORD_COLUMNS.items()}
    return pyarrow.schema(fields)
