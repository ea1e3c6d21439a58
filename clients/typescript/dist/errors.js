/** Errors as types. Every error of this package is a `ClinchError`. */
/** The base of every error of this package. */
export class ClinchError extends Error {
    /**
     * The key of the command that was submitted, also one that was made up. The same command with
     * this key is the same operation.
     */
    idemKey = undefined;
    /** The operation that the error is about, where it is known. */
    opId = undefined;
    /** The batch that was opened or added to, also if its id was made up. */
    batchId = undefined;
    /**
     * Of `submitMany` and `addToBatch`: every command with its key. Submitting them again has the
     * effect of submitting them once.
     */
    commands = [];
    /** Of the same: the results before the error, in the order of the commands. */
    results = [];
    /** How long the server wants to be left alone. */
    retryAfterMs = 0;
    constructor(message) {
        super(message);
        this.name = new.target.name;
    }
}
/** The server refused a request. `code` is stable and meant for programs. */
export class ApiError extends ClinchError {
    problem;
    constructor(problem) {
        super(`${problem.status} ${problem.code}: ${problem.detail}`);
        this.problem = problem;
        this.opId = problem.op_id ?? undefined;
    }
    get status() {
        return this.problem.status;
    }
    get code() {
        return this.problem.code;
    }
    /** The field that was refused. */
    get field() {
        return this.problem.field ?? undefined;
    }
}
/** The request is wrong: sending it again does not help. */
export class InvalidRequest extends ApiError {
}
/** The server has no route for this domain and event type. */
export class UnknownRoute extends InvalidRequest {
}
/** The body, a payload or a checkpoint is longer than the server allows. */
export class PayloadTooLarge extends InvalidRequest {
}
/** The API key is missing, wrong, revoked or expired. */
export class Unauthorized extends ApiError {
}
/** The API key does not allow this request. */
export class Forbidden extends ApiError {
}
/** There is no such operation or batch, or the API key must not see it. */
export class NotFound extends ApiError {
}
/** The state of the operation does not allow the request. */
export class Conflict extends ApiError {
}
/** The attempt that a worker reported on is no longer the current one. */
export class StaleFence extends Conflict {
}
/** The same keys were accepted with another payload. `opId` is the accepted operation. */
export class IdempotencyMismatch extends Conflict {
}
/** A bug of the server (500). The server's log has the details. */
export class ServerError extends ApiError {
}
/**
 * The server could not be reached, or could not take the request, within the budget.
 * The last request may have taken effect. Sending it again with the same keys is safe: the error
 * has them (`idemKey`, `batchId`, `commands`), also those that were made up.
 */
export class Unavailable extends ClinchError {
    problem;
    constructor(message, problem) {
        super(message);
        this.problem = problem;
        this.opId = problem?.op_id ?? undefined;
    }
}
/** The server refuses new work because its queue is too old (429). */
export class Throttled extends Unavailable {
}
/** The operation, or a batch, did not settle in time. Clinch keeps working on it. */
export class NotSettled extends ClinchError {
    operation;
    constructor(message, operation) {
        super(message);
        this.operation = operation;
        this.opId = operation?.op_id;
        this.idemKey = operation?.idem_key;
    }
}
/** The operation ended as FAILED. `code` says why; `effect` is none or unknown. */
export class OperationFailed extends ClinchError {
    operation;
    code;
    effect;
    constructor(operation) {
        const failure = operation.failure;
        const code = failure?.code ?? "unknown";
        super(`${operation.op_id} failed with ${code}: ${failure?.message ?? "no longer stored"}`);
        this.operation = operation;
        this.opId = operation.op_id;
        this.idemKey = operation.idem_key;
        this.code = code;
        this.effect = failure?.effect ?? operation.effect;
    }
}
/**
 * The operation ended as COMPLETED long ago: only its keys and its state are still stored.
 * The provider applied the call. Calling it again would be a second call.
 */
export class ResultPruned extends ClinchError {
    operation;
    constructor(operation) {
        super(`${operation.op_id} is COMPLETED, and its result was pruned`);
        this.operation = operation;
        this.opId = operation.op_id;
        this.idemKey = operation.idem_key;
    }
}
/** The error type of each code. */
export const BY_CODE = {
    invalid_command: InvalidRequest,
    invalid_request: InvalidRequest,
    unknown_route: UnknownRoute,
    payload_too_large: PayloadTooLarge,
    unsupported_media_type: InvalidRequest,
    unauthenticated: Unauthorized,
    forbidden: Forbidden,
    not_found: NotFound,
    terminal: Conflict,
    ambiguous_id: Conflict,
    stale_fence: StaleFence,
    idempotency_mismatch: IdempotencyMismatch,
};
/** Codes of answers that ask for the same request again. */
export const REPEATED = {
    request_timeout: Unavailable,
    shed: Throttled,
    unavailable: Unavailable,
};
/** Answers of a proxy that say nothing about the request: it can be sent again. */
const OF_A_PROXY = [404, 408, 425, 429, 502, 503, 504];
/** The error of a problem document. Unknown codes are told apart by their status. */
export function errorOf(problem) {
    const repeated = REPEATED[problem.code];
    if (repeated) {
        return new repeated(`${problem.status} ${problem.code}: ${problem.detail}`, problem);
    }
    const known = BY_CODE[problem.code];
    if (known)
        return new known(problem);
    // A proxy between us and the server has no code. Its 404 does not say that there is no such
    // operation.
    if (!problem.code && (problem.status < 400 || OF_A_PROXY.includes(problem.status))) {
        return new Unavailable(problem.detail, problem);
    }
    switch (problem.status) {
        case 401:
            return new Unauthorized(problem);
        case 403:
            return new Forbidden(problem);
        case 404:
            return new NotFound(problem);
        case 409:
            return new Conflict(problem);
        case 413:
            return new PayloadTooLarge(problem);
        default:
            return problem.status < 500 ? new InvalidRequest(problem) : new ServerError(problem);
    }
}
/** Whether a Clinch server gave this answer, and not a proxy before it. */
export function isOfClinch(error) {
    return error instanceof ApiError && error.code !== "";
}
