"""Unsupervised Dependency Graph Network (Shen et al. 2022)."""
