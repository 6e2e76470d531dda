"""A sample of an input."""

# ruff: noqa: N999 - the name is the original's


class SampleDefinition:
    """A type with a value of it."""

    def __init__(self, input_type: "str", sample: "object") -> "None":
        self.input_type = input_type
        self.sample = sample
