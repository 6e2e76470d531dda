"""Names of the types of inputs."""

# ruff: noqa: N999 - the name is the original's


class DataTypes:
    """As the original spelled them."""

    STANDARD = "standard"
    NUMPY = "numpy"
    PANDAS = "pandas"
    SPARK = "spark"
