/** Client and worker for Clinch: durable calls to systems that you do not control. */

export {
  Client,
  acceptedId,
  resultOf,
  type CallOptions,
  type ClientOptions,
  type Filter,
  type SubmitOptions,
  type WaitOptions,
} from "./client.js";
export {
  isSettled,
  type Batch,
  type BulkResult,
  type Command,
  type Failure,
  type Hold,
  type Json,
  type LastError,
  type Operation,
  type Problem,
  type Result,
} from "./documents.js";
export {
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
} from "./errors.js";
export { Done, Fail, Retry, Unknown } from "./outcomes.js";
export { Call } from "./call.js";
export { Worker, type Handler, type WorkerOptions } from "./worker.js";
