"""Pure algorithms: tensors, arrays or lists in and out."""
