from script_fixtures import corpus, gilt, gpt2, pushdown, run  # noqa: F401
