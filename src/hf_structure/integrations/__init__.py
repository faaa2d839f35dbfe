"""The models in other evaluation libraries."""
