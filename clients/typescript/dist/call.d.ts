/** What a handler gets. */
import type { Delivery, Json } from "./documents.js";
/** An attempt: what a handler gets. */
export declare class Call<P = Json> {
    #private;
    /** An operator asked to cancel the operation: make no further call. */
    cancelRequested: boolean;
    /** Another worker may have the operation now. An ok of this attempt still counts. */
    leaseLost: boolean;
    /** Aborted when the worker has to stop and the handler did not end in time. */
    readonly signal: AbortSignal;
    /** @internal */
    constructor(delivery: Delivery, save: (value: Json) => Promise<void>, signal: AbortSignal);
    get opId(): string;
    get domain(): string;
    get eventType(): string;
    get bizKey(): string;
    /** The key of the caller. Send `outboundKey` to the provider, not this one. */
    get idemKey(): string;
    get payload(): P;
    get labels(): Record<string, string>;
    /** The idempotency key for the provider: the same in every attempt. */
    get outboundKey(): string;
    /** The number of this call, from 1. */
    get attempt(): number;
    /** No attempt begins after this time. */
    get deadline(): Date | undefined;
    /** What an earlier attempt saved; null: nothing. */
    get checkpoint(): Json;
    get traceparent(): string | undefined;
    /** Keeps any JSON for the next attempt. */
    saveCheckpoint(value: Json): Promise<void>;
}
