"""A submission whose answer is missing, or whose daemons are down, is no failure of the job: Snakemake would run it twice."""

import logging
from typing import Any

import pliant
import pytest

import snakemake_executor_plugin_pliant as plugin


class Job:
    jobid = 7


class MadeUp:
    """A client that answers submissions in this order."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.sent = list(answers), []

    def submit(self, **options: Any) -> Any:
        self.sent.append(options)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> plugin.Executor:
    monkeypatch.setattr(plugin, "PAUSE_S", 0.0)
    # Without a workflow: only what a submission needs.
    made = object.__new__(plugin.Executor)
    made.logger = logging.getLogger("pliant-test")
    return made


def test_a_submission_whose_outcome_is_unknown_is_repeated_with_its_key(executor: plugin.Executor, caplog: pytest.LogCaptureFixture) -> None:
    unknown = pliant.SubmissionUnknownError("the connection was lost", "with its key", "0f" * 16, "lyon")
    down = pliant.UnavailableError("the submission with this key was sent to lyon before; lyon is down")
    executor.client = MadeUp(unknown, down, unknown, "accepted")
    assert executor._submitted(Job(), {"script": "job.sh"}) == "accepted"
    assert [sent.get("key") for sent in executor.client.sent] == [None, "0f" * 16, "0f" * 16, "0f" * 16]
    assert "Job 7 is not submitted yet" in caplog.text and "lyon is down" in caplog.text


def test_a_submission_waits_for_daemons_that_are_down(executor: plugin.Executor) -> None:
    executor.client = MadeUp(pliant.UnavailableError("the agent is down"), pliant.UnavailableError("busy"), "accepted")
    assert executor._submitted(Job(), {"script": "job.sh"}) == "accepted"
    assert all("key" not in sent for sent in executor.client.sent)


@pytest.mark.parametrize("error", [pliant.RefusedError("no server accepts the job"), pliant.InputError("--time: expected a length of time")])
def test_a_submission_that_cannot_succeed_fails(executor: plugin.Executor, error: pliant.PliantError) -> None:
    executor.client = MadeUp(error)
    with pytest.raises(type(error)):
        executor._submitted(Job(), {"script": "job.sh"})


def test_a_submission_that_its_server_refuses_with_the_key_fails(executor: plugin.Executor) -> None:
    refused = pliant.InputError("the submission with this key was sent to lyon before; lyon: the job is too large")
    executor.client = MadeUp(pliant.SubmissionUnknownError("the connection was lost", None, "0f" * 16, "lyon"), refused)
    with pytest.raises(pliant.InputError, match="too large"):
        executor._submitted(Job(), {"script": "job.sh"})
