/** A worker that executes operations of routes with `remote = true`. For Node. */
import { Call } from "./call.js";
import type { Json } from "./documents.js";
import { type ConnectionOptions } from "./request.js";
export interface WorkerOptions extends ConnectionOptions {
    /** Handlers at once, for each domain; 8 by default. */
    concurrency?: number;
    /**
     * The time after which the server gives up a worker that was killed; 30 s by default. While a
     * handler runs, the worker extends the lease three times as often.
     */
    leaseMs?: number;
    /** The worker's name in the history of operations. */
    name?: string;
    /**
     * How long running handlers have to end after SIGTERM or `stop()`, also if the server does not
     * answer; 20 s by default. A lease that is under way then has 7 s to bring what is to be given
     * back, and reports have 5 s more.
     */
    stopWithinMs?: number;
    /**
     * The text of an unexpected exception goes into the log and to the server. By default only its
     * type does, because the text may hold secrets.
     */
    exposeErrors?: boolean;
    /** Takes one line; `console.error` by default. */
    log?: (line: string) => void;
}
export type Handler<P = Json> = (call: Call<P>) => unknown;
/**
 * Leases operations, gives them to handlers and reports how they ended.
 *
 * What a handler leaves undone is not taken for done: a generator, a function, an error or a
 * promise in `Done` that it returns counts as unknown.
 */
export declare class Worker {
    #private;
    constructor(url?: string, options?: WorkerOptions);
    /** Declares the handler of an event type; `*`: of all others of the domain. */
    handle<P = Json>(domain: string, eventType: string, handler: Handler<P>): this;
    /** Stops leasing; `run` resolves when the running handlers have ended. */
    stop(): void;
    /** Works until SIGTERM, SIGINT or `stop()`. A second signal ends it at once. */
    run(): Promise<void>;
}
