"""The original's Python API, for scripts inside runs. A really installed azureml goes first, name by name."""

from ._holdfast_shadow import give_way

give_way(__name__, __path__)
