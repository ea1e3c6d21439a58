/** Sends requests, and sends them again while that is safe and may help. */
import { ClinchError, Forbidden, PayloadTooLarge, ServerError, Unauthorized, Unavailable, errorOf, isOfClinch, } from "./errors.js";
/** The first pause before a request is repeated; doubles with each repeat. */
export const PAUSE_FIRST_MS = 100;
/** The longest pause that this client chooses itself: a restarted server is noticed soon. */
export const PAUSE_MAX_MS = 5_000;
/** The longest `Retry-After` that is followed. */
const RETRY_AFTER_MAX_MS = 60_000;
/** The longest wait that the server allows. */
const WAIT_MAX_MS = 60_000;
/** How much later than asked for an answer may come before the connection counts as broken. */
const ANSWER_GRACE_MS = 15_000;
/** The longest answer that is read: a lease holds up to 64 MiB of payloads. */
const ANSWER_BYTES_MAX = 80 * 1024 * 1024;
/** The longest time of a timer. One for longer would be over at once. */
export const TIMER_MAX_MS = 2 ** 31 - 1;
const route = (method, path, repeatable = true) => ({
    method,
    path,
    repeatable,
});
export const ENDPOINTS = {
    submit: route("POST", "/v1/operations"),
    bulk: route("POST", "/v1/operations/bulk"),
    get: route("GET", "/v1/operations/{op_id}"),
    list: route("GET", "/v1/operations"),
    cancel: route("POST", "/v1/operations/{op_id}/cancel"),
    openBatch: route("POST", "/v1/batches"),
    listBatches: route("GET", "/v1/batches"),
    getBatch: route("GET", "/v1/batches/{batch_id}"),
    addToBatch: route("POST", "/v1/batches/{batch_id}/operations"),
    sealBatch: route("POST", "/v1/batches/{batch_id}/seal"),
    // Every lease begins other attempts. The worker asks anew instead.
    lease: route("POST", "/v1/leases", false),
    heartbeat: route("POST", "/v1/leases/{op_id}/heartbeat"),
    checkpoint: route("POST", "/v1/leases/{op_id}/checkpoint"),
    release: route("POST", "/v1/leases/{op_id}/release"),
    outcome: route("POST", "/v1/leases/{op_id}/outcome"),
};
/** Does something when the signal is aborted, until the returned function is called. */
export function onAbort(signal, act) {
    // `AbortSignal.any` would do, but it leaks memory with a source that lives long.
    if (signal?.aborted)
        act();
    signal?.addEventListener("abort", act, { once: true });
    return () => signal?.removeEventListener("abort", act);
}
/** Waits; rejects with the signal's reason when the signal is aborted. */
export function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
            forget();
            resolve();
        }, Math.min(ms, TIMER_MAX_MS));
        const forget = onAbort(signal, () => {
            clearTimeout(timer);
            reject(signal?.reason);
        });
    });
}
/** A random UUID, also on pages where `crypto.randomUUID` does not exist. */
export function uuid() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
/** A server that requests are sent to. */
export class Connection {
    #base;
    #apiKey;
    #fetch;
    constructor(url, options) {
        const parsed = new URL(url);
        if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
            throw new TypeError("the address of a server begins with http:// or https://");
        }
        if (parsed.username || parsed.search || parsed.hash) {
            throw new TypeError("the address of a server has no user, query or fragment");
        }
        this.#base = parsed.origin + parsed.pathname.replace(/\/+$/, "");
        this.#apiKey = options.apiKey;
        this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    }
    /** Sends a request; repeats it with the same keys while the budget lasts. */
    async send(name, request) {
        const endpoint = ENDPOINTS[name];
        let last;
        let own = PAUSE_FIRST_MS;
        for (;;) {
            let trouble;
            try {
                const answer = await this.#once(endpoint, request);
                if (answer.status >= 200 && answer.status < 300) {
                    return { json: parse(answer.text), headers: answer.headers };
                }
                trouble = errorOf(problem(answer.status, answer.text));
                const secs = answer.headers.get("retry-after") ?? "";
                if (/^\d+$/.test(secs)) {
                    trouble.retryAfterMs = Math.min(Number(secs) * 1_000, RETRY_AFTER_MAX_MS);
                }
            }
            catch (error) {
                request.signal?.throwIfAborted();
                const unreachable = () => new Unavailable(`the server cannot be reached: ${reason(error)}`);
                trouble = error instanceof ClinchError ? error : unreachable();
            }
            if (!mayPass(trouble, request.patient))
                throw trouble;
            // Half to whole: the callers of a restarted server do not come all at once.
            const ms = Math.max(trouble.retryAfterMs, own * (0.5 + Math.random() / 2));
            last ??= performance.now() + request.budgetMs;
            if (!endpoint.repeatable || performance.now() + ms > last)
                throw trouble;
            await pause(ms, request.signal);
            own = Math.min(own * 2, PAUSE_MAX_MS);
        }
    }
    async #once(endpoint, request) {
        let { query, waitMs = 0 } = request;
        if (request.until !== undefined) {
            waitMs = Math.min(Math.max(request.until - performance.now(), 0), WAIT_MAX_MS);
            query = { ...query, wait: `${Math.round(waitMs)}ms` };
        }
        const url = this.#base + target(endpoint.path, request.path, query);
        const headers = { accept: "application/json", ...request.headers };
        if (request.body !== undefined)
            headers["content-type"] = "application/json";
        if (this.#apiKey !== undefined)
            headers["authorization"] = `Bearer ${this.#apiKey}`;
        const canceled = new AbortController();
        const forget = onAbort(request.signal, () => canceled.abort(request.signal?.reason));
        const timer = setTimeout(() => canceled.abort(new DOMException("no answer in time", "TimeoutError")), waitMs + ANSWER_GRACE_MS);
        try {
            const response = await this.#fetch(url, {
                method: endpoint.method,
                headers,
                body: request.body ?? null,
                redirect: "manual",
                signal: canceled.signal,
            });
            return { status: response.status, headers: response.headers, text: await textOf(response) };
        }
        finally {
            clearTimeout(timer);
            forget();
        }
    }
}
/** Whether the same request may get another answer. */
function mayPass(trouble, patient) {
    if (trouble instanceof Unavailable)
        return true;
    if (!patient || trouble instanceof PayloadTooLarge)
        return false;
    const passing = [ServerError, Unauthorized, Forbidden];
    return passing.some((kind) => trouble instanceof kind) || !isOfClinch(trouble);
}
/** The body, whatever its length is said to be. */
async function textOf(response) {
    if (!response.body)
        return response.text();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    const parts = [];
    let length = 0;
    for (;;) {
        const { done, value } = await reader.read();
        if (done)
            return parts.join("") + decoder.decode();
        length += value.length;
        if (length > ANSWER_BYTES_MAX) {
            await reader.cancel();
            throw new ClinchError("the answer is too long");
        }
        parts.push(decoder.decode(value, { stream: true }));
    }
}
function target(path, ids, members) {
    let filled = path;
    for (const [name, value] of Object.entries(ids ?? {})) {
        filled = filled.replace(`{${name}}`, () => encodeURIComponent(value));
    }
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(members ?? {})) {
        if (value !== null && value !== undefined)
            query.set(name, String(value));
    }
    const text = query.toString();
    return text ? `${filled}?${text}` : filled;
}
function parse(text) {
    try {
        return JSON.parse(text);
    }
    catch {
        throw new ClinchError("the answer is not JSON: is this a Clinch server?");
    }
}
function problem(status, text) {
    try {
        const document = JSON.parse(text);
        if (typeof document === "object" && document !== null && "code" in document) {
            return document;
        }
    }
    catch {
        // Not an answer of Clinch. Its text may be long or private: it is left out.
    }
    const detail = `HTTP status ${status}, not an answer of a Clinch server`;
    return { type: "about:blank", title: "", status, code: "", detail };
}
/** The kind of a failed fetch, such as ECONNREFUSED. */
function reason(error) {
    const cause = error instanceof Error ? error.cause : undefined;
    const code = cause?.code;
    if (typeof code === "string")
        return code;
    return error instanceof Error ? error.name : "no answer";
}
