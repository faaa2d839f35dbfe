"""Small trained models as package data: each folder is one short name."""
