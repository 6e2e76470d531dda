"""A real client of Jupyter, driven by lines of JSON on stdin: ``[verb, text]``; answers are lines on stdout."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from jupyter_client.manager import KernelManager  # type: ignore[import-not-found,unused-ignore]

LIMIT_S = 80


class Client:
    def __init__(self, kernel: str) -> None:
        self.manager = KernelManager(kernel_name=kernel)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT_S)

    def run(self, code: str) -> dict[str, Any]:
        began = time.monotonic()
        answer: dict[str, Any] = {"text": "", "value": None, "html": None, "error": None, "traceback": ""}

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                answer["text"] += content["text"]
            elif message["msg_type"] == "execute_result":
                answer.update(value=content["data"].get("text/plain"), html=content["data"].get("text/html"))
            elif message["msg_type"] == "error":
                answer["error"] = f"{content['ename']}: {content['evalue']}"
                answer["traceback"] = "\n".join(content["traceback"])

        reply = self.client.execute_interactive(code, timeout=LIMIT_S, output_hook=take)
        return {**answer, "status": reply["content"]["status"], "seconds": time.monotonic() - began}

    def interrupt(self, code: str) -> dict[str, Any]:
        """Run a cell and interrupt it when it has printed something."""
        timer = threading.Timer(0.5, self.manager.interrupt_kernel)
        timer.start()
        return self.run(code)

    def shutdown(self, how: str) -> dict[str, Any]:
        self.manager.shutdown_kernel(now=how == "now")
        return {"is_alive": self.manager.is_alive()}

    def restart(self, _text: str) -> dict[str, Any]:
        self.manager.restart_kernel()
        self.client.wait_for_ready(timeout=LIMIT_S)
        return self.is_alive("")

    def is_alive(self, _text: str) -> dict[str, Any]:
        return {"is_alive": self.manager.is_alive()}


def main() -> None:
    client = Client(sys.argv[1])
    for line in sys.stdin:
        verb, text = json.loads(line)
        print(json.dumps(getattr(client, verb)(text)), flush=True)
    if client.manager.is_alive():
        client.manager.shutdown_kernel()


if __name__ == "__main__":
    main()
