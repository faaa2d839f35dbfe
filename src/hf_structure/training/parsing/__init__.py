"""The parts of `examples/run_parsing.py`."""
