/** The client. */
import { isSettled, } from "./documents.js";
import { ClinchError, NotSettled, OperationFailed, ResultPruned, Unavailable, errorOf, } from "./errors.js";
import { Connection, pause, uuid } from "./request.js";
/** The longest wait that the server allows. */
const WAIT_MAX_MS = 60_000;
/** Operations of one bulk request. */
const BULK_MAX = 10_000;
/** Bytes of one bulk request: a server takes 16 MiB unless it is told otherwise. */
const BULK_BYTES_MAX = 15 * 1024 * 1024;
/** The longest pause between two looks at a batch. */
const BATCH_PAUSE_MAX_MS = 1_000;
/**
 * The payload of the result. Throws `OperationFailed` or `NotSettled`; of a COMPLETED operation
 * `ResultPruned` if its result is no longer stored, and `Unavailable` if the server could not read
 * the result when it answered: get the operation again.
 */
export function resultOf(operation) {
    if (operation.state === "FAILED")
        throw new OperationFailed(operation);
    if (!isSettled(operation)) {
        throw new NotSettled(`${operation.op_id} is ${operation.state}`, operation);
    }
    if (operation.result)
        return operation.result.payload;
    if (operation.pruned)
        throw new ResultPruned(operation);
    const unread = new Unavailable(`${operation.op_id} is COMPLETED, and its result could not be read`);
    unread.opId = operation.op_id;
    unread.idemKey = operation.idem_key;
    throw unread;
}
/** The id of an accepted operation of a bulk request. Throws the error of a refused one. */
export function acceptedId(result) {
    if (result.op_id)
        return result.op_id;
    if (result.error)
        throw errorOf(result.error);
    throw new ClinchError("the result names neither an operation nor an error");
}
/** A command for the API. An empty key stays empty, and the server refuses it. */
export function document(command, idemKey) {
    return { ...command, idem_key: command.idem_key ?? idemKey, payload: command.payload ?? null };
}
/** Does something; an error of it learns what the caller needs to do it again. */
async function telling(work, what) {
    try {
        return await work;
    }
    catch (error) {
        if (error instanceof ClinchError) {
            const told = what();
            Object.assign(error, { ...told, opId: error.opId ?? told.opId });
            if (error instanceof Unavailable && told.idemKey) {
                error.message += ` (idem_key ${told.idemKey})`;
            }
        }
        throw error;
    }
}
/** A client of the API. */
export class Client {
    #connection;
    #budgetMs;
    constructor(url = "http://127.0.0.1:7070", options = {}) {
        this.#connection = new Connection(url, options);
        this.#budgetMs = options.budgetMs ?? 30_000;
    }
    /**
     * Submits an operation and waits until it is settled, for `waitMs` at most.
     *
     * Without `idem_key` a new key is made up; an error has it. Pass your own key where your program
     * may call this again for the same thing: after a crash, or after it aborted `signal`.
     */
    async submit(command, options = {}) {
        const waitMs = options.waitMs ?? 2_000;
        const until = performance.now() + waitMs;
        const { traceparent } = options;
        // Made up once: every repeat of the request has the same key.
        const keyed = document(command, uuid());
        let opId;
        const submitted = async () => {
            const reply = await this.#connection.send("submit", {
                ...this.#of(options),
                body: JSON.stringify(keyed),
                headers: traceparent ? { traceparent } : {},
                until,
            });
            opId = reply.json.op_id;
            if (isSettled(reply.json) || waitMs <= WAIT_MAX_MS)
                return reply.json;
            return this.#settledBy(opId, until, options);
        };
        return telling(submitted(), () => ({ idemKey: keyed.idem_key ?? undefined, opId }));
    }
    /**
     * Submits an operation and returns the payload of its result. Throws `OperationFailed`, or
     * `NotSettled` after `timeoutMs`; Clinch keeps working on the operation then. Throws
     * `ResultPruned` if an operation with this key ended so long ago that its result is no longer
     * stored.
     */
    async call(command, options = {}) {
        const { timeoutMs = 60_000, ...rest } = options;
        return resultOf(await this.submit(command, { ...rest, waitMs: timeoutMs }));
    }
    /**
     * Submits operations, 10,000 in one commit, and does not wait for them. The results are in the
     * order of the commands. A refused command fails alone. An error has what was accepted before it
     * in `results`, and in `commands` all of them with their keys: submitting those again has the
     * effect of submitting them once.
     */
    submitMany(commands, options = {}) {
        return this.#bulk(commands, undefined, options);
    }
    /** The operation as it is now. */
    async get(opId, options = {}) {
        return this.#get(opId, undefined, options);
    }
    /** Waits until an operation is settled. Throws `NotSettled` after `timeoutMs`. */
    async wait(opId, options = {}) {
        const timeoutMs = options.timeoutMs ?? 60_000;
        const operation = await this.#settledBy(opId, performance.now() + timeoutMs, options);
        if (isSettled(operation))
            return operation;
        const message = `${opId} is ${operation.state} after ${timeoutMs} ms; Clinch keeps working on it`;
        throw new NotSettled(message, operation);
    }
    /** Operations, newest first, page by page while you iterate. */
    async *operations(filter = {}, options = {}) {
        let cursor;
        do {
            const query = { ...filter, limit: options.pageSize, cursor };
            const reply = await this.#connection.send("list", { ...this.#of(options), query });
            yield* reply.json.operations;
            cursor = reply.json.next_cursor;
        } while (cursor);
    }
    /** Allows no further call. An attempt that is running ends first. */
    async cancel(opId, reason, options = {}) {
        const reply = await this.#connection.send("cancel", {
            ...this.#of(options),
            path: { op_id: opId },
            body: JSON.stringify({ reason: reason ?? null }),
        });
        return reply.json;
    }
    /** Opens a batch. `onComplete` is accepted in the commit that completes the batch. */
    async openBatch(options = {}) {
        const { batchId = uuid(), onComplete } = options;
        // The key is the same for the same batch: who opens it again opens the same one.
        const completing = onComplete ? { on_complete: document(onComplete, `${batchId}:complete`) } : {};
        const body = { batch_id: batchId, ...completing };
        return telling(this.#batch("openBatch", undefined, options, body), () => ({ batchId }));
    }
    /** Submits operations as members of a batch. */
    addToBatch(batchId, commands, options = {}) {
        return this.#bulk(commands, batchId, options);
    }
    /** Ends the batch: it takes no more members. */
    sealBatch(batchId, options = {}) {
        return this.#batch("sealBatch", batchId, options, {});
    }
    /** The batch as it is now. */
    batch(batchId, options = {}) {
        return this.#batch("getBatch", batchId, options);
    }
    /** Waits until every member of a sealed batch is settled. */
    async waitBatch(batchId, options = {}) {
        const timeoutMs = options.timeoutMs ?? 60_000;
        const until = performance.now() + timeoutMs;
        for (let own = 50;; own = Math.min(own * 2, BATCH_PAUSE_MAX_MS)) {
            const batch = await this.batch(batchId, options);
            if (batch.complete)
                return batch;
            const left = until - performance.now();
            if (left <= 0) {
                const done = batch.completed + batch.failed;
                throw new NotSettled(`batch ${batchId}: ${done} of ${batch.total} settled after ${timeoutMs} ms`);
            }
            await pause(Math.min(own, left), options.signal);
        }
    }
    /** Batches, newest first, page by page while you iterate. */
    async *batches(options = {}) {
        let cursor;
        do {
            const query = { limit: options.pageSize, cursor };
            const reply = await this.#connection.send("listBatches", {
                ...this.#of(options),
                query,
            });
            yield* reply.json.batches;
            cursor = reply.json.next_cursor;
        } while (cursor);
    }
    #of(options) {
        return { budgetMs: options.budgetMs ?? this.#budgetMs, signal: options.signal };
    }
    async #get(opId, until, options) {
        const request = { ...this.#of(options), path: { op_id: opId }, until };
        const got = this.#connection.send("get", request);
        return (await telling(got, () => ({ opId }))).json;
    }
    async #settledBy(opId, until, options) {
        for (;;) {
            const began = performance.now();
            const operation = await this.#get(opId, until, options);
            const now = performance.now();
            if (isSettled(operation) || now >= until)
                return operation;
            // A server that stops answers at once: do not ask in a tight loop.
            if (now - began < 50)
                await pause(Math.min(200, until - now), options.signal);
        }
    }
    async #bulk(commands, batchId, options) {
        const keyed = commands.map((command) => document(command, uuid()));
        // Before the first request: a payload that is not JSON must not be found in the middle.
        const documents = keyed.map((command) => JSON.stringify(command));
        const results = [];
        const submitted = async () => {
            for (const body of bodies(documents)) {
                const request = { ...this.#of(options), body };
                const reply = batchId === undefined
                    ? await this.#connection.send("bulk", request)
                    : await this.#connection.send("addToBatch", {
                        ...request,
                        path: { batch_id: batchId },
                    });
                results.push(...reply.json.results);
            }
            return results;
        };
        return telling(submitted(), () => ({ commands: keyed, results, batchId }));
    }
    async #batch(name, batchId, options, body) {
        const reply = await this.#connection.send(name, {
            ...this.#of(options),
            path: batchId === undefined ? {} : { batch_id: batchId },
            ...(body ? { body: JSON.stringify(body) } : {}),
        });
        return reply.json;
    }
}
/** Bulk requests that are neither too many nor too long. */
function* bodies(documents) {
    let part = [];
    let length = 0;
    for (const document of documents) {
        const bytes = new TextEncoder().encode(document).length;
        if (part.length === BULK_MAX || (part.length > 0 && length + bytes > BULK_BYTES_MAX)) {
            yield `{"operations":[${part.join(",")}]}`;
            part = [];
            length = 0;
        }
        part.push(document);
        length += bytes + 1;
    }
    if (part.length > 0)
        yield `{"operations":[${part.join(",")}]}`;
}
