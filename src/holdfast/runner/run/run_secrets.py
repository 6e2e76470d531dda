"""The parts of a start that are kept in memory only: values of variables, a notification, an environment."""

from ..decoding import as_bytes


class Secrets:
    """Values of variables, where to say that the run ended, and the environment to build.

    The addresses of an environment may hold passwords.
    """

    def __init__(self, env: "dict[bytes, bytes]", on_end: "str", environment: "dict[str, object]") -> "None":
        self.env = env
        self.on_end = on_end
        self.environment = environment


def told(fields: "dict[str, object]") -> "Secrets":
    """As a client sends them with a start."""
    given = fields["env"].items()  # type: ignore[attr-defined]
    env = {as_bytes(name): as_bytes(value) for name, value in given}
    return Secrets(env, str(fields.get("on_end") or ""), dict(fields.get("environment") or {}))  # type: ignore[call-overload]
