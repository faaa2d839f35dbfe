"""`python -m hf_structure`."""

from hf_structure.cli.main import main

if __name__ == "__main__":
    main()
