/** How a handler ends an attempt: return a value or `Done`, or throw one of the others. */
import type { Command, Json } from "./documents.js";
/** The provider applied the call. */
export declare class Done {
    readonly payload: Json;
    readonly txnId: string | undefined;
    readonly spawn: readonly Command[];
    /**
     * `spawn` are operations that are accepted in the commit that settles this one. Without an
     * `idem_key` of its own a spawned operation gets one that is the same in every attempt.
     */
    constructor(payload?: Json, more?: {
        txnId?: string;
        spawn?: readonly Command[];
    });
}
/** The attempt did not succeed; another one may. */
export declare class Retry extends Error {
    readonly applied: "no" | "unknown";
    readonly afterMs: number | undefined;
    /**
     * `applied: "no"`: the provider certainly did not apply the call, so it may be repeated on every
     * route. `applied: "unknown"`, the default: the call is repeated only where the route's `safety`
     * allows it, and otherwise held for an operator. `afterMs`: no attempt before that; what is not
     * a time counts as left out.
     */
    constructor(reason: string, more?: {
        applied?: "no" | "unknown";
        afterMs?: number;
    });
}
/** It is unknown whether the provider applied the call: a timeout, or a broken connection. */
export declare class Unknown extends Retry {
    constructor(reason: string, more?: {
        afterMs?: number;
    });
}
/** The provider refused the call for good: the operation is FAILED, without an effect. */
export declare class Fail extends Error {
    readonly code: string;
    /** `cause` is the provider's own text, where it has one. */
    constructor(code: string, message?: string, more?: {
        cause?: string;
    });
}
/** The members of a report. */
export type Outcome = {
    type: "ok" | "retry" | "fail";
} & Record<string, Json>;
/** What a handler returned instead of a result, because it did not do its work. */
export declare function undone(value: unknown): string | undefined;
/** What is not an ok, for the API. */
export declare function outcomeOf(value: Retry | Fail): Outcome;
/**
 * An ok for the API, and the names of its parts that are not JSON.
 *
 * Only these parts are left out: a result that cannot be written must not lose the operations that
 * follow. An operation that cannot be written is sent as null, which the server leaves out like any
 * other that it cannot read. So the server knows that one is missing, and alerts.
 */
export declare function written(done: Done, opId: string): {
    outcome: Outcome;
    leftOut: string[];
};
