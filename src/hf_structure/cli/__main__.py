"""`python -m hf_structure.cli`."""

from hf_structure.cli.main import main

main()
