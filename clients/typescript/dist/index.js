/** Client and worker for Clinch: durable calls to systems that you do not control. */
export { Client, acceptedId, resultOf, } from "./client.js";
export { isSettled, } from "./documents.js";
export { ApiError, ClinchError, Conflict, Forbidden, IdempotencyMismatch, InvalidRequest, NotFound, NotSettled, OperationFailed, PayloadTooLarge, ResultPruned, ServerError, StaleFence, Throttled, Unauthorized, Unavailable, UnknownRoute, } from "./errors.js";
export { Done, Fail, Retry, Unknown } from "./outcomes.js";
export { Call } from "./call.js";
export { Worker } from "./worker.js";
