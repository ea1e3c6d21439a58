/** A worker that executes operations of routes with `remote = true`. For Node. */
import { Call } from "./call.js";
import { Ending } from "./ending.js";
import { ClinchError, Conflict, InvalidRequest, NotFound, ServerError, StaleFence, Unavailable, isOfClinch, } from "./errors.js";
import { Done, Fail, Retry, Unknown, outcomeOf, undone, written } from "./outcomes.js";
import { Connection, PAUSE_FIRST_MS, PAUSE_MAX_MS, TIMER_MAX_MS, onAbort, pause, } from "./request.js";
/**
 * How long a lease waits for work. Also how long an idle worker takes to stop, at a server that
 * answers: a lease that is under way is heard out, and what it brings is given back.
 */
const POLL_MS = 2_000;
/** How long an outcome is offered to a server that does not answer. An ok is taken however late. */
const REPORT_BUDGET_MS = 600_000;
/** How long a worker that stops tries to give back what it did not begin, and to report. */
const LAST_WORDS_MS = 5_000;
/**
 * What is changed in a refused report, one after the other; undefined: the part is left out. The
 * operations that follow an ok go last: they are work, the rest is words. The server leaves out a
 * null among them, names it and alerts.
 */
const LESS = {
    ok: [
        { payload: undefined },
        { spawn: [null] },
        { payload: undefined, spawn: [null] },
        { payload: undefined, spawn: undefined },
    ],
    retry: [{ reason: undefined }, { reason: undefined, after_ms: undefined }],
    fail: [{ message: undefined, cause: undefined }],
};
/**
 * Leases operations, gives them to handlers and reports how they ended.
 *
 * What a handler leaves undone is not taken for done: a generator, a function, an error or a
 * promise in `Done` that it returns counts as unknown.
 */
export class Worker {
    #connection;
    #concurrency;
    #leaseMs;
    #name;
    #stopWithinMs;
    #exposeErrors;
    #log;
    #handlers = new Map();
    #leases = new Set();
    #attempts = new Set();
    /** Aborted when the worker begins to stop. */
    #stopping = new AbortController();
    /** Signals of handlers: aborted when handlers that still run are given up. */
    #givenUp = new Ending();
    /** Signals of requests: aborted when nothing more is waited for. */
    #ended = new Ending();
    constructor(url = "http://127.0.0.1:7070", options = {}) {
        this.#connection = new Connection(url, options);
        this.#concurrency = Math.min(options.concurrency ?? 8, 1_000);
        this.#leaseMs = options.leaseMs ?? 30_000;
        if (this.#concurrency < 1)
            throw new RangeError("concurrency must be at least 1");
        if (this.#leaseMs < 1_000)
            throw new RangeError("leaseMs must be at least 1000");
        this.#name = options.name ?? ownName();
        this.#stopWithinMs = options.stopWithinMs ?? 20_000;
        this.#exposeErrors = options.exposeErrors ?? false;
        const log = options.log ?? ((line) => console.error(line));
        this.#log = (line) => {
            try {
                log(line);
            }
            catch {
                // An outcome counts more than a line.
            }
        };
    }
    /** Declares the handler of an event type; `*`: of all others of the domain. */
    handle(domain, eventType, handler) {
        if (/Generator/.test(Object.prototype.toString.call(handler))) {
            throw new TypeError("a handler returns its result: it must not yield");
        }
        const known = this.#handlers.get(domain) ?? new Map();
        if (known.has(eventType))
            throw new Error(`${domain}/${eventType} has a handler already`);
        known.set(eventType, handler);
        this.#handlers.set(domain, known);
        return this;
    }
    /** Stops leasing; `run` resolves when the running handlers have ended. */
    stop() {
        this.#stopping.abort();
    }
    /** Works until SIGTERM, SIGINT or `stop()`. A second signal ends it at once. */
    async run() {
        if (this.#handlers.size === 0)
            throw new Error("the worker has no handlers");
        let signals = 0;
        const onSignal = () => {
            signals += 1;
            if (signals === 1)
                this.stop();
            else
                this.#ended.abort(new Error("the worker was told to end at once"));
        };
        const { process } = globalThis;
        for (const name of ["SIGTERM", "SIGINT"])
            process?.on(name, onSignal);
        try {
            await this.#work();
        }
        finally {
            for (const name of ["SIGTERM", "SIGINT"])
                process?.off(name, onSignal);
        }
    }
    async #work() {
        const failed = [];
        for (const domain of this.#handlers.keys()) {
            const fail = (error) => void failed.push(error);
            const leasing = this.#lease(domain).catch(fail).finally(() => {
                this.#leases.delete(leasing);
                // One error ends them all: a wrong key or an unknown route.
                this.#stopping.abort();
            });
            this.#leases.add(leasing);
        }
        const end = this.#ended.begin();
        await new Promise((resolve) => {
            onAbort(this.#stopping.signal, resolve);
            onAbort(end.signal, resolve);
        });
        this.#stopping.abort();
        await this.#finish();
        if (failed.length > 0)
            throw failed[0];
    }
    /**
     * Lets running attempts end, within the time that there is.
     *
     * A lease that is under way has its time beside theirs: a server that hangs must not delay the
     * end of handlers. What it brings is given back.
     */
    async #finish() {
        const giveUp = () => this.#givenUp.abort(new Error("the worker stops"));
        const timer = setTimeout(giveUp, Math.min(this.#stopWithinMs, TIMER_MAX_MS));
        const hearing = POLL_MS + LAST_WORDS_MS;
        await this.#within(hearing, empty(this.#leases, this.#attempts));
        await this.#within(this.#stopWithinMs - hearing, empty(this.#attempts));
        clearTimeout(timer);
        giveUp();
        await this.#within(LAST_WORDS_MS, empty(this.#attempts));
        if (this.#attempts.size > 0) {
            this.#log(`clinch worker: ${this.#attempts.size} attempts were abandoned`);
        }
        // Ends leases, heartbeats and repeats of reports.
        this.#ended.abort(new Error("the worker has stopped"));
    }
    async #within(ms, work) {
        const timer = this.#ended.begin();
        const time = pause(ms, timer.signal).catch(() => undefined);
        await Promise.race([work, time]).catch(() => undefined);
        timer.abort();
        this.#ended.forget(timer);
    }
    /** Leases operations of a domain while there is room for them. */
    async #lease(domain) {
        const handlers = this.#handlers.get(domain) ?? new Map();
        let free = this.#concurrency;
        let freed = () => { };
        onAbort(this.#stopping.signal, () => freed());
        const { signal } = this.#ended.begin();
        let own = PAUSE_FIRST_MS;
        // Attempts of a lease whose answer is lost are held. After a failure little is asked for.
        let most = this.#concurrency;
        let hasLeased = false;
        while (!this.#stopping.signal.aborted) {
            if (free === 0) {
                await new Promise((resolve) => (freed = resolve));
                continue;
            }
            let leased;
            const asked = clocks();
            try {
                const eventTypes = handlers.has("*") ? null : [...handlers.keys()];
                leased = await this.#ask(domain, eventTypes, Math.min(most, free), signal);
            }
            catch (error) {
                // Nothing more is waited for.
                if (signal.aborted)
                    return;
                if (!(error instanceof ClinchError))
                    throw error;
                const mayPass = error instanceof Unavailable || error instanceof ServerError;
                // Where Clinch has answered before, something else does for a moment.
                if (!mayPass && (!hasLeased || isOfClinch(error)))
                    throw error;
                if (own === PAUSE_FIRST_MS)
                    this.#log(`clinch worker: ${error.message}; trying again`);
                const ms = Math.max(own, error.retryAfterMs);
                await pause(ms, this.#stopping.signal).catch(() => undefined);
                own = Math.min(own * 2, PAUSE_MAX_MS);
                most = 1;
                continue;
            }
            own = PAUSE_FIRST_MS;
            most = Math.min(most * 2, this.#concurrency);
            hasLeased = true;
            for (const delivery of leased.deliveries) {
                free -= 1;
                const made = this.#attempt(delivery, leased.leaseMs, asked).catch((error) => {
                    // A rejection that nothing handles would end the process, and every other attempt.
                    const kind = error instanceof Error ? error.name : typeof error;
                    this.#log(`clinch worker: ${delivery?.op_id}: the attempt was lost: ${kind}`);
                });
                const attempt = made.finally(() => {
                    free += 1;
                    freed();
                    this.#attempts.delete(attempt);
                });
                this.#attempts.add(attempt);
            }
        }
    }
    async #ask(domain, eventTypes, max, signal) {
        const reply = await this.#connection.send("lease", {
            budgetMs: 0,
            waitMs: POLL_MS,
            signal,
            body: JSON.stringify({
                domain,
                event_types: eventTypes,
                max,
                wait: `${POLL_MS}ms`,
                lease: `${this.#leaseMs}ms`,
                worker: this.#name,
            }),
        });
        const { deliveries } = reply.json;
        if (!Array.isArray(deliveries)) {
            throw new ClinchError("the answer has no deliveries: is this a Clinch server?");
        }
        const lengths = deliveries.map((one) => this.#length(reply.headers, one.lease_until));
        return { deliveries, leaseMs: Math.min(this.#leaseMs, ...lengths) };
    }
    /**
     * One attempt from its lease to its report. Never rejects.
     *
     * A process that was suspended since it `asked` makes no call for a lease that has certainly
     * ended: the operation may have been resolved and called again meanwhile.
     */
    async #attempt(delivery, leaseMs, asked) {
        const handlers = this.#handlers.get(delivery.command.domain);
        const handler = handlers?.get(delivery.command.event_type) ?? handlers?.get("*");
        const giveUp = this.#givenUp.begin();
        const reporting = this.#ended.begin();
        const beating = this.#ended.begin();
        const report = (name, more, budgetMs) => this.#report(name, delivery, more, budgetMs, reporting.signal);
        let heart = Promise.resolve();
        try {
            const isOver = since(asked) > POLL_MS + leaseMs;
            if (this.#stopping.signal.aborted || !handler || isOver) {
                const release = () => report("release", { worker: this.#name }, LAST_WORDS_MS);
                return await this.#reported(delivery, "release", release);
            }
            const save = async (value) => {
                await report("checkpoint", { checkpoint: value ?? null }, this.#leaseMs);
            };
            const call = new Call(delivery, save, giveUp.signal);
            heart = this.#beat(delivery, call, leaseMs, beating.signal);
            const outcome = await this.#outcome(handler, call);
            await this.#reported(delivery, outcome.type, () => this.#tell(call.opId, outcome, report));
        }
        finally {
            beating.abort();
            this.#givenUp.forget(giveUp);
            this.#ended.forget(reporting);
            this.#ended.forget(beating);
            await heart;
        }
    }
    async #outcome(handler, call) {
        let value;
        try {
            value = await handler(call);
        }
        catch (error) {
            value = error;
            if (!(error instanceof Retry || error instanceof Fail)) {
                value = new Unknown(this.#said(error, call));
            }
        }
        const left = undone(value);
        if (left !== undefined) {
            this.#log(`clinch worker: ${call.opId}: the handler returned ${left}`);
            value = new Unknown(`the handler returned ${left}`);
        }
        if (!(value instanceof Retry || value instanceof Fail)) {
            // The call was made: its ok counts, whatever cannot be written.
            const done = value instanceof Done ? value : new Done(value);
            const { outcome, leftOut } = written(done, call.opId);
            if (leftOut.length > 0) {
                const what = `the ok is reported without what is not JSON: ${leftOut.join(", ")}`;
                this.#log(`clinch worker: ${call.opId}: ${what}`);
            }
            return outcome;
        }
        try {
            const outcome = outcomeOf(value);
            JSON.stringify(outcome);
            return outcome;
        }
        catch {
            this.#log(`clinch worker: ${call.opId}: the outcome is not JSON`);
        }
        return { type: "retry", applied: "unknown", reason: "the outcome is not JSON" };
    }
    /** What may be said about an unexpected exception. */
    #said(error, call) {
        let said = "the handler threw";
        let text = "";
        try {
            const name = error instanceof Error ? error.constructor?.name : undefined;
            said += ` ${String(name ?? typeof error).slice(0, 64)}`;
            text = error instanceof Error ? String(error.message) : typeof error === "string" ? error : "";
        }
        catch {
            // An object may refuse to become text.
        }
        const whole = this.#exposeErrors ? `${said}: ${text}` : said;
        this.#log(`clinch worker: ${call.opId} attempt ${call.attempt}: ${whole}`);
        return whole;
    }
    /** Extends the lease until it is done or the attempt is lost. */
    async #beat(delivery, call, leaseMs, signal) {
        const over = () => {
            call.leaseLost = true;
            this.#log(`clinch worker: ${delivery.op_id}: no heartbeat was answered within its lease`);
        };
        let length = leaseMs;
        let own = length / 3;
        let end = setTimeout(over, length);
        try {
            for (;;) {
                await pause(own, signal);
                try {
                    const reply = await this.#heartbeat(delivery, length / 3, signal);
                    length = this.#length(reply.headers, reply.json.lease_until);
                    clearTimeout(end);
                    end = setTimeout(over, length);
                    call.leaseLost = false;
                    call.cancelRequested = reply.json.cancel_requested;
                    own = length / 3;
                }
                catch (error) {
                    if (signal.aborted)
                        return;
                    if (error instanceof Conflict || error instanceof NotFound) {
                        call.leaseLost = true;
                        this.#log(`clinch worker: ${delivery.op_id} lost its lease: ${text(error)}`);
                        return;
                    }
                    // The server may be back before the lease ends.
                    own = Math.min(length / 3, 1_000);
                }
            }
        }
        catch (error) {
            if (!signal.aborted)
                throw error;
        }
        finally {
            clearTimeout(end);
        }
    }
    /** One heartbeat. One that hangs must not take the time of the next. */
    async #heartbeat(delivery, ms, signal) {
        const hangs = new AbortController();
        const forget = onAbort(signal, () => hangs.abort(signal.reason));
        const timer = setTimeout(() => hangs.abort(new Unavailable("no answer in time")), ms);
        try {
            return await this.#connection.send("heartbeat", {
                budgetMs: ms,
                patient: true,
                signal: hangs.signal,
                path: { op_id: delivery.op_id },
                body: JSON.stringify({ ...attemptOf(delivery), lease: `${this.#leaseMs}ms` }),
            });
        }
        finally {
            clearTimeout(timer);
            forget();
        }
    }
    /** Reports an outcome. Where the server refuses it: with as little less as it takes. */
    async #tell(opId, outcome, report) {
        // What happened at the provider counts, even without what was said about it.
        const less = lessOf(outcome);
        let told = outcome;
        for (;;) {
            try {
                return await report("outcome", { worker: this.#name, ...told }, REPORT_BUDGET_MS);
            }
            catch (error) {
                const changes = error instanceof InvalidRequest ? less.shift() : undefined;
                if (changes === undefined)
                    throw error;
                told = { ...outcome, ...changes };
                const refused = `${opId}: the ${outcome.type} was refused: ${text(error)}`;
                const leftOut = Object.keys(changes).join(", ");
                this.#log(`clinch worker: ${refused}; it is reported without ${leftOut}`);
            }
        }
    }
    async #report(name, delivery, more, budgetMs, signal) {
        const reply = await this.#connection.send(name, {
            budgetMs,
            signal,
            // A checkpoint is the handler's own request, and the handler sees its error.
            patient: name !== "checkpoint",
            path: { op_id: delivery.op_id },
            body: JSON.stringify({ ...attemptOf(delivery), ...more }),
        });
        return reply.json;
    }
    async #reported(delivery, what, report) {
        const said = `clinch worker: ${delivery.op_id}`;
        try {
            const state = await report();
            if (state.left_out?.length) {
                this.#log(`${said}: the server left out ${state.left_out.join(", ")}`);
            }
        }
        catch (error) {
            if (error instanceof StaleFence)
                this.#log(`${said}: the ${what} came too late`);
            else
                this.#log(`${said}: the ${what} was not taken: ${text(error)}`);
        }
    }
    /**
     * The length of a lease: a route may allow less than was asked for. Measured by the server's own
     * clock, which may differ from ours. The header is in whole seconds, so a lease may seem to be
     * up to a second longer than it is.
     */
    #length(headers, until) {
        const date = Date.parse(headers.get("date") ?? "");
        const length = until ? Date.parse(until) - date : Number.NaN;
        return Number.isNaN(length) ? this.#leaseMs : Math.max(100, Math.min(this.#leaseMs, length));
    }
}
const clocks = () => [performance.now(), Date.now()];
/** The milliseconds since then, on the clock that counted more. */
function since(then) {
    const now = clocks();
    return Math.max(now[0] - then[0], now[1] - then[1]);
}
/** Resolves when no promise is left in the sets, also none that came meanwhile. */
async function empty(...sets) {
    for (;;) {
        const open = sets.flatMap((set) => [...set]);
        if (open.length === 0)
            return;
        await Promise.all(open);
    }
}
function ownName() {
    const { process } = globalThis;
    const host = process?.getBuiltinModule?.("node:os").hostname() ?? "host";
    return `node-${host.slice(0, 40)}-${process?.pid ?? 0}`;
}
function attemptOf(delivery) {
    return { fence: delivery.fence, token: delivery.token };
}
/** The changes of a refused report that make a difference to it. */
function lessOf(outcome) {
    const isGiven = ([name]) => (outcome[name] ?? null) !== null;
    const less = LESS[outcome.type].map((one) => Object.entries(one).filter(isGiven));
    const isNew = (changes, at) => less.findIndex((one) => JSON.stringify(one) === JSON.stringify(changes)) === at;
    const differing = less.filter((changes, at) => changes.length > 0 && isNew(changes, at));
    return differing.map((changes) => Object.fromEntries(changes));
}
function text(error) {
    return error instanceof ClinchError ? error.message : "the worker stopped";
}
