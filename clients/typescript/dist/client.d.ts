/** The client. */
import { type Batch, type BulkResult, type Command, type Json, type Operation } from "./documents.js";
import { type ConnectionOptions } from "./request.js";
export interface ClientOptions extends ConnectionOptions {
    /**
     * How long a request is repeated while the server cannot be reached or answers 429 or 503, from
     * the first failure; 30 s by default. Repeats carry the same keys and have the effect of one
     * request.
     */
    budgetMs?: number;
}
export interface CallOptions {
    /** Instead of the client's budget. */
    budgetMs?: number;
    /** Ends the call. An operation that was submitted goes on. */
    signal?: AbortSignal;
}
export interface SubmitOptions extends CallOptions {
    /** How long to wait until the operation is settled; 2 s by default. */
    waitMs?: number;
    /** The W3C trace that the operation belongs to. */
    traceparent?: string;
}
export interface WaitOptions extends CallOptions {
    /** 60 s by default. */
    timeoutMs?: number;
}
/** Which operations are listed. */
export interface Filter {
    domain?: string;
    event_type?: string;
    biz_key?: string;
    idem_key?: string;
    provider_txn_id?: string;
    /** PENDING, IN_PROGRESS, COMPLETED or FAILED. */
    state?: string;
    /** live, waiting or held. */
    phase?: string;
    /** `name=value` */
    label?: string;
    batch_id?: string;
    destination?: string;
    /** The code of a failure, a hold or a last error. */
    code?: string;
    /** Accepted at or after, RFC 3339. */
    from?: string;
    /** Accepted before, RFC 3339. */
    to?: string;
}
/**
 * The payload of the result. Throws `OperationFailed` or `NotSettled`; of a COMPLETED operation
 * `ResultPruned` if its result is no longer stored, and `Unavailable` if the server could not read
 * the result when it answered: get the operation again.
 */
export declare function resultOf<T = Json>(operation: Operation): T;
/** The id of an accepted operation of a bulk request. Throws the error of a refused one. */
export declare function acceptedId(result: BulkResult): string;
/** A command for the API. An empty key stays empty, and the server refuses it. */
export declare function document(command: Command, idemKey: string): Command;
/** A client of the API. */
export declare class Client {
    #private;
    constructor(url?: string, options?: ClientOptions);
    /**
     * Submits an operation and waits until it is settled, for `waitMs` at most.
     *
     * Without `idem_key` a new key is made up; an error has it. Pass your own key where your program
     * may call this again for the same thing: after a crash, or after it aborted `signal`.
     */
    submit(command: Command, options?: SubmitOptions): Promise<Operation>;
    /**
     * Submits an operation and returns the payload of its result. Throws `OperationFailed`, or
     * `NotSettled` after `timeoutMs`; Clinch keeps working on the operation then. Throws
     * `ResultPruned` if an operation with this key ended so long ago that its result is no longer
     * stored.
     */
    call<T = Json>(command: Command, options?: WaitOptions & {
        traceparent?: string;
    }): Promise<T>;
    /**
     * Submits operations, 10,000 in one commit, and does not wait for them. The results are in the
     * order of the commands. A refused command fails alone. An error has what was accepted before it
     * in `results`, and in `commands` all of them with their keys: submitting those again has the
     * effect of submitting them once.
     */
    submitMany(commands: readonly Command[], options?: CallOptions): Promise<BulkResult[]>;
    /** The operation as it is now. */
    get(opId: string, options?: CallOptions): Promise<Operation>;
    /** Waits until an operation is settled. Throws `NotSettled` after `timeoutMs`. */
    wait(opId: string, options?: WaitOptions): Promise<Operation>;
    /** Operations, newest first, page by page while you iterate. */
    operations(filter?: Filter, options?: CallOptions & {
        pageSize?: number;
    }): AsyncGenerator<Operation, void, void>;
    /** Allows no further call. An attempt that is running ends first. */
    cancel(opId: string, reason?: string, options?: CallOptions): Promise<Operation>;
    /** Opens a batch. `onComplete` is accepted in the commit that completes the batch. */
    openBatch(options?: CallOptions & {
        batchId?: string;
        onComplete?: Command;
    }): Promise<Batch>;
    /** Submits operations as members of a batch. */
    addToBatch(batchId: string, commands: readonly Command[], options?: CallOptions): Promise<BulkResult[]>;
    /** Ends the batch: it takes no more members. */
    sealBatch(batchId: string, options?: CallOptions): Promise<Batch>;
    /** The batch as it is now. */
    batch(batchId: string, options?: CallOptions): Promise<Batch>;
    /** Waits until every member of a sealed batch is settled. */
    waitBatch(batchId: string, options?: WaitOptions): Promise<Batch>;
    /** Batches, newest first, page by page while you iterate. */
    batches(options?: CallOptions & {
        pageSize?: number;
    }): AsyncGenerator<Batch, void, void>;
}
