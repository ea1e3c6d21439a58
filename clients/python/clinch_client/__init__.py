"""Client and worker for Clinch: durable calls to systems that you do not control."""

from .aio import AsyncClient
from .call import AsyncCall, Call
from .client import Client
from .errors import (
    ApiError,
    ClinchError,
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    NotSettled,
    OperationFailed,
    PayloadTooLarge,
    ResultPruned,
    ServerError,
    StaleFence,
    Throttled,
    Unauthorized,
    Unavailable,
    UnknownRoute,
)
from .model import Batch, BulkResult, Command, Failure, Hold, LastError, Operation, Problem, Result
from .outcomes import Done, Fail, Retry, Unknown
from .worker import Worker

__all__ = [
    "ApiError",
    "AsyncCall",
    "AsyncClient",
    "Batch",
    "BulkResult",
    "Call",
    "Client",
    "ClinchError",
    "Command",
    "Conflict",
    "Done",
    "Fail",
    "Failure",
    "Forbidden",
    "Hold",
    "IdempotencyMismatch",
    "InvalidRequest",
    "LastError",
    "NotFound",
    "NotSettled",
    "Operation",
    "OperationFailed",
    "PayloadTooLarge",
    "Problem",
    "Result",
    "ResultPruned",
    "Retry",
    "ServerError",
    "StaleFence",
    "Throttled",
    "Unauthorized",
    "Unavailable",
    "Unknown",
    "UnknownRoute",
    "Worker",
]
