"""Errors as types. Every error of this package is a :class:`ClinchError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Optional, Sequence, Type, Union

if TYPE_CHECKING:
    from .model import BulkResult, Command, Operation, Problem


class ClinchError(Exception):
    """The base of every error of this package."""

    #: The key of the command that was submitted, also one that was made up. The same command with
    #: this key is the same operation.
    idem_key: Optional[str] = None
    #: The operation that the error is about, where it is known.
    op_id: Optional[str] = None
    #: The batch that was opened or added to, also if its id was made up.
    batch_id: Optional[str] = None
    #: Of ``submit_many`` and ``add_to_batch``: every command with its key. Submitting them again
    #: has the effect of submitting them once.
    commands: Sequence[Command] = ()
    #: Of the same: the results that the server gave before the error, in the order of the commands.
    results: Sequence[BulkResult] = ()
    #: How many seconds the server wants to be left alone.
    retry_after: float = 0.0


class ApiError(ClinchError):
    """The server refused a request. ``code`` is stable and meant for programs."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")
        self.problem = problem
        self.op_id = problem.op_id

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def code(self) -> str:
        """The stable code, such as ``not_found``."""
        return self.problem.code

    @property
    def field(self) -> Optional[str]:
        """The field that was refused."""
        return self.problem.field


class InvalidRequest(ApiError):
    """The request is wrong: sending it again does not help."""


class UnknownRoute(InvalidRequest):
    """The server has no route for this domain and event type."""


class PayloadTooLarge(InvalidRequest):
    """The body, a payload or a checkpoint is longer than the server allows."""


class Unauthorized(ApiError):
    """The API key is missing, wrong, revoked or expired."""


class Forbidden(ApiError):
    """The API key does not allow this request."""


class NotFound(ApiError):
    """There is no such operation or batch, or the API key must not see it."""


class Conflict(ApiError):
    """The state of the operation does not allow the request."""


class StaleFence(Conflict):
    """The attempt that a worker reported on is no longer the current one."""


class IdempotencyMismatch(Conflict):
    """The same keys were accepted with another payload. ``op_id`` is the accepted operation."""


class Unavailable(ClinchError):
    """The server could not be reached, or could not take the request, within the budget.

    The last request may have taken effect. Sending it again with the same keys is safe: the error
    has them (``idem_key``, ``batch_id``, ``commands``), also those that were made up.
    """

    def __init__(self, message: str, problem: Optional[Problem] = None) -> None:
        super().__init__(message)
        self.problem = problem
        if problem is not None:
            self.op_id = problem.op_id

    def __str__(self) -> str:
        key = f" (idem_key {self.idem_key})" if self.idem_key is not None else ""
        return super().__str__() + key


class Throttled(Unavailable):
    """The server refuses new work because its queue is too old (429)."""


class ServerError(ApiError):
    """A bug of the server (500). The server's log has the details."""


class NotSettled(ClinchError, TimeoutError):
    """The operation, or a batch, did not settle in time. Clinch keeps working on it."""

    def __init__(self, message: str, operation: Optional[Operation] = None) -> None:
        super().__init__(message)
        self.operation = operation
        if operation is not None:
            self.op_id, self.idem_key = operation.op_id, operation.idem_key


class OperationFailed(ClinchError):
    """The operation ended as FAILED. ``code`` says why; ``effect`` is ``none`` or ``unknown``."""

    def __init__(self, operation: Operation) -> None:
        failure = operation.failure
        self.operation = operation
        self.op_id, self.idem_key = operation.op_id, operation.idem_key
        self.code = failure.code if failure else "unknown"
        self.effect = failure.effect if failure else operation.effect
        message = failure.message if failure else "the reason is no longer stored"
        super().__init__(f"{operation.op_id} failed with {self.code}: {message}")


class ResultPruned(ClinchError):
    """The operation ended as COMPLETED long ago: only its keys and its state are still stored.

    The provider applied the call. Calling it again would be a second call.
    """

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.op_id, self.idem_key = operation.op_id, operation.idem_key
        super().__init__(f"{operation.op_id} is COMPLETED, and its result was pruned")


#: The error type of every code that the server may answer. ``unavailable``, ``shed`` and
#: ``request_timeout`` become :class:`Unavailable` or :class:`Throttled` after the last retry.
BY_CODE: Dict[str, Type[ApiError]] = {
    "invalid_command": InvalidRequest,
    "invalid_request": InvalidRequest,
    "unknown_route": UnknownRoute,
    "payload_too_large": PayloadTooLarge,
    "unsupported_media_type": InvalidRequest,
    "unauthenticated": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "terminal": Conflict,
    "ambiguous_id": Conflict,
    "stale_fence": StaleFence,
    "idempotency_mismatch": IdempotencyMismatch,
}

#: Codes of answers that ask for the same request again.
REPEATED: Dict[str, Type[Unavailable]] = {
    "request_timeout": Unavailable,
    "shed": Throttled,
    "unavailable": Unavailable,
}


#: Answers of a proxy that say nothing about the request: it can be sent again.
_OF_A_PROXY = (404, 408, 425, 429, 502, 503, 504)


def of(problem: Problem) -> Union[ApiError, Unavailable]:
    """The error of a problem document. Unknown codes are told apart by their status."""
    repeated = REPEATED.get(problem.code)
    if repeated is not None:
        return repeated(f"{problem.status} {problem.code}: {problem.detail}", problem)
    known = BY_CODE.get(problem.code)
    if known is not None:
        return known(problem)
    # A proxy between us and the server has no code. Its 404 does not say that there is no such
    # operation.
    if not problem.code and (problem.status < 400 or problem.status in _OF_A_PROXY):
        return Unavailable(problem.detail, problem)
    by_status: Dict[int, Type[ApiError]] = {
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        413: PayloadTooLarge,
    }
    if problem.status in by_status:
        return by_status[problem.status](problem)
    return InvalidRequest(problem) if problem.status < 500 else ServerError(problem)


def is_of_clinch(error: ClinchError) -> bool:
    """Whether a Clinch server gave this answer, and not a proxy before it."""
    return isinstance(error, ApiError) and error.code != ""
