"""The GPUs of one run: reserved before the script starts, monitored while it runs, judged after it.

Created in the guardian, so that the monitoring process is not a child of the supervisor and the reservation has a
second holder: copies of its descriptors stay unread in a socket of the guardian and are closed with it.
"""

import array
import contextlib
import os
import select
import socket
import time

from ..decoding import lossless
from ..run import outcome, workdir
from ..store import layout
from . import gpu_model, gpu_queue, matching, nvml_process, probe_run, receipt, watcher

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any

    from ..plan import GpuRequest, Plan
    from ..store.run_files import Events

_ANSWER_S = 3.0  # for the watcher, after the run has ended
_LONGEST_S = 40.0
_FIRST_S, _LOOK_S = 0.5, 5.0
_FACTS = ("state", "driver", "cuda", "trouble")
_SILENT = "GPU monitoring stopped early because NVIDIA's driver hung or crashed"


class CannotTake(workdir.CannotPrepare):
    """The run cannot have its GPUs; the text says why, ``code`` is what the client exits with."""

    def __init__(self, why: "str", code: "int") -> "None":
        super().__init__(why)
        self.code = code


class Hold:
    def __init__(self, attempt: "bytes", plan: "Plan") -> "None":
        self._attempt = attempt
        self._plan = plan
        self._request = plan.gpu
        self.given = None  # type: list[dict[str, Any]] | None
        self._facts = {}  # type: dict[str, Any]
        self._receipt = {}  # type: dict[str, Any]
        self._refused = ""
        self._checked = False
        self._lost, self._lost_after = "", 0.0
        self._began = time.monotonic()
        self._claim = None  # type: gpu_queue.Claim | None
        self._idle_at = self._look_at = 0.0
        self._watcher = watcher.Watcher(attempt)  # type: watcher.Watcher | None
        self._letters = socket.socketpair() if self._counts() else None

    def keep(self) -> "None":
        """In the guardian: what is in the letterbox stays there; the rest is the supervisor's."""
        if self._watcher is not None:
            self._watcher.release()
        if self._letters is not None:
            self._letters[1].close()

    def take(self, events: "Events", rest: "Callable[[float, list[int]], bool]") -> "bool":
        """Wait for what was wished for; False if the run was told to stop meanwhile. ``rest`` waits, and says so."""
        if self._letters is not None:
            self._letters[0].close()
        if self._request is None:
            return True
        if self._request.count == 0:
            self.given = []
            return True
        if not self._ask(rest) or (self._counts() and not self._queue(self._request, events, rest)):
            return False
        seen = self.given if self.given is not None else self._facts["gpus"]
        shown = [{name: value for name, value in card.items() if name != "processes"} for card in seen]
        events.add("gpu_facts", gpus=shown, **{name: self._facts.get(name) for name in _FACTS})
        if self._request.require and not seen and self._facts["state"] != gpu_model.UNMEASURED:
            why = self._facts.get("trouble") or "this run has no GPU"
            raise CannotTake("%s: %s" % (outcome.GPU_IDLE, why), outcome.GPU_IDLE_CODE)
        return True

    @property
    def wants(self) -> "bool":
        return self._request is not None and self._request.count != 0

    @property
    def chosen(self) -> "list[dict[str, Any]] | None":
        """Cards that are this run's and no others; None where it may see all there are."""
        return None if self._request is not None and _shares_all(self._request) else self.given

    def variables(self) -> "dict[bytes, bytes]":
        """By UUID, as numbers mean another card in a container or after a restart."""
        if self.chosen is None:
            return {}
        return {b"CUDA_VISIBLE_DEVICES": ",".join(card["uuid"] for card in self.chosen).encode("ascii")}

    def check(self, events: "Events", answer: "dict[str, Any]") -> "None":
        """What the test said that ran where the script will."""
        self._note_check(events, answer)
        if self._refused:
            raise CannotTake(self._refused, outcome.GPU_IDLE_CODE)

    def begin(self) -> "None":
        """The script has started."""
        self._began = now = time.monotonic()
        if self._watcher is not None:
            uuids = [card["uuid"] for card in self.given] if self.given is not None else None
            container = layout.container_id(self._attempt) if self._plan.container is not None else None
            path = lossless(container) if container else None
            self._watcher.tell(do="watch", uid=self._plan.uid, uuids=uuids, container=path)
        if self._request is not None:
            if self._request.require:
                self._idle_at = now + self._request.grace_s
            if self._plan.container is not None:
                self._look_at = now + _FIRST_S

    @property
    def sources(self) -> "list[int]":
        return [self._watcher.answers] if self._watcher is not None else []

    def times(self) -> "list[float]":
        """When ``mind`` wants to be called next."""
        return [when for when in (self._idle_at, self._look_at) if when]

    def hear(self, events: "Events") -> "None":
        if self._watcher is None:
            return
        lines = self._watcher.hear()
        if lines is None:
            self._watcher.release()
            self._watcher = None
            self._idle_at = 0.0  # who cannot look cannot accuse
        for line in lines or ():
            self._note(events, line)

    def mind(self, events: "Events", now: "float") -> "str":
        """Why the run must be stopped; empty if it need not be."""
        if self._claim is not None:
            self._claim.keep_fresh()
        if self._look_at and now >= self._look_at:
            self._look_inside(events)
            self._look_at = now + (_LOOK_S if self._checked else _FIRST_S)
        if self._refused:
            return self._refused
        if self._idle_at and now >= self._idle_at:
            self._idle_at = 0.0
            within = self._request.grace_text if self._request is not None else ""
            return "%s: no process of the run was seen on its GPU within %s (gpuGrace)" % (outcome.GPU_IDLE, within)
        return ""

    def finish(self, events: "Events") -> "dict[str, Any]":
        """The receipt, once all who were part of the run are gone; empty for a run that has nothing to do with GPUs."""
        began = heard = time.monotonic()
        if self._watcher is not None:
            self._watcher.tell(do="finish")
        while self._watcher is not None and not self._receipt.get("final"):
            now = time.monotonic()
            left = min(heard + _ANSWER_S, began + _LONGEST_S) - now
            if left <= 0:
                break
            if select.select([self._watcher.answers], [], [], left)[0]:
                heard = time.monotonic()
                self.hear(events)
        if self._look_at:
            self._look_inside(events)
        if self._claim is not None:
            self._claim.end()
        result = self._receipt or self._without_watcher()
        result.pop("final", None)
        if self._lost:
            evidence = "the container lost access to it %.1f s after the start: %s" % (self._lost_after, self._lost)
            result.update(verdict=receipt.LOST, evidence=evidence, lost_after_s=self._lost_after)
        if self._request is None and not any(card["context_after_s"] is not None for card in result["gpus"]):
            if result["gpus"]:
                events.add("gpu_unused", gpus=[card["name"] for card in result["gpus"]])
            return {}
        events.add("gpu_receipt", **result)
        return result

    def verdict(self, result: "dict[str, Any]", code: "int") -> "str":
        """Why a script that ended well has failed all the same; empty if it has not."""
        required = self._request is not None and self._request.require
        if code or not required or result.get("verdict") not in (receipt.IDLE, receipt.HELD, receipt.ABSENT):
            return ""
        return "%s: %s" % (outcome.GPU_IDLE, result["evidence"])

    def _counts(self) -> "bool":
        return self._request is not None and self._request.count not in (None, 0)

    def _ask(self, rest: "Callable[[float, list[int]], bool]") -> "bool":
        """Read what the machine has now; False if the run was told to stop. A silent driver is not asked again."""
        if self._watcher is None:
            return True
        self._watcher.tell(do="facts")
        deadline = time.monotonic() + nvml_process.LIMIT_S
        while self._watcher is not None:
            lines = self._watcher.hear()
            facts = [line["facts"] for line in lines or () if "facts" in line]
            if facts:
                self._facts = facts[0]
                return True
            if lines is None or time.monotonic() > deadline:
                if not rest(0.0, []):
                    return False  # the guardian has ended, and the watching process with it
                why = "NVIDIA's library crashed" if lines is None else "NVIDIA's driver does not respond"
                self._facts = dict(_unmeasured(why), gpus=self._facts.get("gpus") or [])
                self._watcher.release()
                self._watcher = None
                return True
            if not rest(min(1.0, max(0.0, deadline - time.monotonic())), [self._watcher.answers]):
                return False
        return True

    def _queue(self, request: "GpuRequest", events: "Events", rest: "Callable[[float, list[int]], bool]") -> "bool":
        if self._facts["state"] != gpu_model.MEASURED or not self._facts["gpus"]:
            if _shares_all(request):
                return True  # whether a container can have any is its engine's to say
            raise CannotTake("%s GPUs requested: %s" % (request.count, self._facts["trouble"]), 65)
        never = matching.impossible(self._seen(), request)
        if never:
            raise CannotTake(never, 65)
        try:
            user = os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
            about = {"run_id": self._plan.run_id, "user": user}
            self._claim = gpu_queue.Claim(self._plan.uid, about, request)
            return self._wait_for(self._claim, request, events, rest)
        except OSError as error:
            raise CannotTake("GPUs of this machine cannot be reserved: %s" % error, 74) from error

    def _wait_for(
        self,
        claim: "gpu_queue.Claim",
        request: "GpuRequest",
        events: "Events",
        rest: "Callable[[float, list[int]], bool]",
    ) -> "bool":
        began, reported, told_at = time.monotonic(), None, 0.0
        limit = request.wait_s
        while True:
            answer = claim.take(self._seen())
            now = time.monotonic()
            if answer.cards:
                self.given = answer.cards
                self._post(claim.descriptors)
                uuids = [card["uuid"] for card in answer.cards]
                waited = round(now - began, 3)
                events.add("gpu_taken", uuids=uuids, shared=request.shared, waited_s=waited, ticket=claim.number)
                return True
            if limit is not None and now - began >= limit:
                claim.leave()
                when = "within %s" % request.wait_text if limit else "now"
                raise CannotTake("no GPU is free %s: %s" % (when, answer.reason), 124)
            position = len(answer.ahead) + 1
            if (position, answer.reason) != reported and (reported is None or now - told_at > 1.0):
                reported, told_at = (position, answer.reason), now
                ahead = [ticket.brief() for ticket in answer.ahead[:10]]
                events.add("queued", position=position, reason=answer.reason, ahead=ahead)
            pause = min(0.25 * position, 5.0)
            claim.keep_fresh()
            if not rest(pause if limit is None else min(pause, max(0.0, began + limit - now)), []):
                claim.leave()
                return False
            if not self._ask(rest):
                claim.leave()
                return False
            if self._watcher is None:
                claim.leave()
                raise CannotTake("the GPUs are no longer visible: %s" % self._facts["trouble"], 74)

    def _seen(self) -> "list[dict[str, Any]]":
        return matching.visible(self._facts["gpus"], os.environ.get("CUDA_VISIBLE_DEVICES"))

    def _post(self, descriptors: "list[int]") -> "None":
        """To the guardian, which keeps them open by not reading them."""
        if self._letters is not None and descriptors:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended; the supervisor finds out
                self._letters[1].sendmsg([b"!"], rights)

    def _note(self, events: "Events", line: "dict[str, Any]") -> "None":
        kind = line.pop("event", None)
        if kind:
            events.add(str(kind), **line)
        if kind == "gpu_context":
            self._idle_at = 0.0
        if "so_far" in line:
            self._receipt = line["so_far"]
        if "receipt" in line:
            self._receipt = dict(line["receipt"], final=True)

    def _note_check(self, events: "Events", answer: "dict[str, Any]") -> "None":
        self._checked = True
        events.add("gpu_check", **answer)
        # A build that cannot use the GPU is reported; that there is no GPU at all is not.
        devices = (answer.get("facts") or {}).get("devices")
        if not answer.get("ok") and not devices and self._request is not None and self._request.require:
            message = "%s: %s\n%s" % (outcome.GPU_IDLE, answer.get("why"), answer.get("fix") or "")
            self._refused = message.strip()

    def _look_inside(self, events: "Events") -> "None":
        """What the container's first process says of the GPU and of the device files that it was given."""
        answer = None if self._checked else probe_run.told(self._attempt)
        if answer is not None:
            self._note_check(events, answer)
        if not self._lost:
            lost = probe_run.lost(self._attempt)
            if lost is not None:
                after = round(time.monotonic() - self._began, 3)
                self._lost = "%s: %s" % (lost["node"], lost["why"])
                events.add("gpu_lost", uuid=None, after_s=after, **lost)
                self._lost_after = after

    def _without_watcher(self) -> "dict[str, Any]":
        """There was no watcher, or it sent no message."""
        facts = self._facts or _unmeasured(_SILENT)
        if facts.get("state") == gpu_model.MEASURED:
            facts = dict(facts, state=gpu_model.UNMEASURED, trouble=_SILENT)
        return receipt.receipt([], facts, 0.0, 0)


def _shares_all(request: "GpuRequest") -> "bool":
    """Every card, together with other runs: nothing is taken from anyone."""
    return request.shared and request.count == "all"


def _unmeasured(why: "str") -> "dict[str, Any]":
    return gpu_model.nothing(gpu_model.UNMEASURED, why)
