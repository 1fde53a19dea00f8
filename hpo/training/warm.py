"""Imports what torch would import at its first use, so that no forked process pays for it.

Creating an optimizer imports the compiler's front end although nothing is compiled (1.0 s), and
laying out a model imports the exporter (0.4 s). The warm server imports this module after the
worker; a process that trains only once need not.
"""

import torch._dynamo
import torch.onnx  # noqa: F401  # imported for what it imports

__all__: list[str] = []
