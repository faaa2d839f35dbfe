"""Readers and writers (CoNLL-U, brackets, SDP 2015, plain text), normalisation, data sets, collators and batches."""
