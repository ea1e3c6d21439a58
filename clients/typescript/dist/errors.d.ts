/** Errors as types. Every error of this package is a `ClinchError`. */
import type { BulkResult, Command, Operation, Problem } from "./documents.js";
/** The base of every error of this package. */
export declare class ClinchError extends Error {
    /**
     * The key of the command that was submitted, also one that was made up. The same command with
     * this key is the same operation.
     */
    idemKey: string | undefined;
    /** The operation that the error is about, where it is known. */
    opId: string | undefined;
    /** The batch that was opened or added to, also if its id was made up. */
    batchId: string | undefined;
    /**
     * Of `submitMany` and `addToBatch`: every command with its key. Submitting them again has the
     * effect of submitting them once.
     */
    commands: readonly Command[];
    /** Of the same: the results before the error, in the order of the commands. */
    results: readonly BulkResult[];
    /** How long the server wants to be left alone. */
    retryAfterMs: number;
    constructor(message: string);
}
/** The server refused a request. `code` is stable and meant for programs. */
export declare class ApiError extends ClinchError {
    readonly problem: Problem;
    constructor(problem: Problem);
    get status(): number;
    get code(): string;
    /** The field that was refused. */
    get field(): string | undefined;
}
/** The request is wrong: sending it again does not help. */
export declare class InvalidRequest extends ApiError {
}
/** The server has no route for this domain and event type. */
export declare class UnknownRoute extends InvalidRequest {
}
/** The body, a payload or a checkpoint is longer than the server allows. */
export declare class PayloadTooLarge extends InvalidRequest {
}
/** The API key is missing, wrong, revoked or expired. */
export declare class Unauthorized extends ApiError {
}
/** The API key does not allow this request. */
export declare class Forbidden extends ApiError {
}
/** There is no such operation or batch, or the API key must not see it. */
export declare class NotFound extends ApiError {
}
/** The state of the operation does not allow the request. */
export declare class Conflict extends ApiError {
}
/** The attempt that a worker reported on is no longer the current one. */
export declare class StaleFence extends Conflict {
}
/** The same keys were accepted with another payload. `opId` is the accepted operation. */
export declare class IdempotencyMismatch extends Conflict {
}
/** A bug of the server (500). The server's log has the details. */
export declare class ServerError extends ApiError {
}
/**
 * The server could not be reached, or could not take the request, within the budget.
 * The last request may have taken effect. Sending it again with the same keys is safe: the error
 * has them (`idemKey`, `batchId`, `commands`), also those that were made up.
 */
export declare class Unavailable extends ClinchError {
    readonly problem: Problem | undefined;
    constructor(message: string, problem?: Problem);
}
/** The server refuses new work because its queue is too old (429). */
export declare class Throttled extends Unavailable {
}
/** The operation, or a batch, did not settle in time. Clinch keeps working on it. */
export declare class NotSettled extends ClinchError {
    readonly operation: Operation | undefined;
    constructor(message: string, operation?: Operation);
}
/** The operation ended as FAILED. `code` says why; `effect` is none or unknown. */
export declare class OperationFailed extends ClinchError {
    readonly operation: Operation;
    readonly code: string;
    readonly effect: string;
    constructor(operation: Operation);
}
/**
 * The operation ended as COMPLETED long ago: only its keys and its state are still stored.
 * The provider applied the call. Calling it again would be a second call.
 */
export declare class ResultPruned extends ClinchError {
    readonly operation: Operation;
    constructor(operation: Operation);
}
/** The error type of each code. */
export declare const BY_CODE: Record<string, new (problem: Problem) => ApiError>;
/** Codes of answers that ask for the same request again. */
export declare const REPEATED: Record<string, new (message: string, problem?: Problem) => Unavailable>;
/** The error of a problem document. Unknown codes are told apart by their status. */
export declare function errorOf(problem: Problem): ApiError | Unavailable;
/** Whether a Clinch server gave this answer, and not a proxy before it. */
export declare function isOfClinch(error: unknown): boolean;
