/** Sends requests, and sends them again while that is safe and may help. */
/** The first pause before a request is repeated; doubles with each repeat. */
export declare const PAUSE_FIRST_MS = 100;
/** The longest pause that this client chooses itself: a restarted server is noticed soon. */
export declare const PAUSE_MAX_MS = 5000;
/** The longest time of a timer. One for longer would be over at once. */
export declare const TIMER_MAX_MS: number;
/** A route of the API. */
export interface Endpoint {
    method: "GET" | "POST";
    path: string;
    /** Two equal requests have the effect of one. */
    repeatable: boolean;
}
export declare const ENDPOINTS: {
    submit: Endpoint;
    bulk: Endpoint;
    get: Endpoint;
    list: Endpoint;
    cancel: Endpoint;
    openBatch: Endpoint;
    listBatches: Endpoint;
    getBatch: Endpoint;
    addToBatch: Endpoint;
    sealBatch: Endpoint;
    lease: Endpoint;
    heartbeat: Endpoint;
    checkpoint: Endpoint;
    release: Endpoint;
    outcome: Endpoint;
};
export interface ConnectionOptions {
    /** `Authorization: Bearer` of every request. */
    apiKey?: string;
    /** A `fetch` of your own, for example one with a client certificate. */
    fetch?: typeof globalThis.fetch;
}
export interface Request {
    /** The time for repeats, from the first failure. */
    budgetMs: number;
    /** JSON text. */
    body?: string;
    query?: Record<string, string | number | null | undefined>;
    headers?: Record<string, string>;
    path?: Record<string, string>;
    /** How long the server may take for its answer. */
    waitMs?: number;
    /** Instead: up to when the server is asked to wait, by `performance.now()`. */
    until?: number | undefined;
    /**
     * Repeats whatever may pass: a bug of the server, a key that is being exchanged, an answer that
     * Clinch did not give. What is reported must not be lost.
     */
    patient?: boolean;
    signal?: AbortSignal | undefined;
}
/** A server's answer: its JSON and its headers. */
export interface Reply<T> {
    json: T;
    headers: Headers;
}
/** Does something when the signal is aborted, until the returned function is called. */
export declare function onAbort(signal: AbortSignal | undefined, act: () => void): () => void;
/** Waits; rejects with the signal's reason when the signal is aborted. */
export declare function pause(ms: number, signal?: AbortSignal): Promise<void>;
/** A random UUID, also on pages where `crypto.randomUUID` does not exist. */
export declare function uuid(): string;
/** A server that requests are sent to. */
export declare class Connection {
    #private;
    constructor(url: string, options: ConnectionOptions);
    /** Sends a request; repeats it with the same keys while the budget lasts. */
    send<T>(name: keyof typeof ENDPOINTS, request: Request): Promise<Reply<T>>;
}
