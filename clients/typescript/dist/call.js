/** What a handler gets. */
/** An attempt: what a handler gets. */
export class Call {
    /** An operator asked to cancel the operation: make no further call. */
    cancelRequested = false;
    /** Another worker may have the operation now. An ok of this attempt still counts. */
    leaseLost = false;
    /** Aborted when the worker has to stop and the handler did not end in time. */
    signal;
    #delivery;
    #save;
    /** @internal */
    constructor(delivery, save, signal) {
        this.#delivery = delivery;
        this.#save = save;
        this.signal = signal;
    }
    get opId() {
        return this.#delivery.op_id;
    }
    get domain() {
        return this.#delivery.command.domain;
    }
    get eventType() {
        return this.#delivery.command.event_type;
    }
    get bizKey() {
        return this.#delivery.command.biz_key;
    }
    /** The key of the caller. Send `outboundKey` to the provider, not this one. */
    get idemKey() {
        return this.#delivery.command.idem_key;
    }
    get payload() {
        return this.#delivery.command.payload;
    }
    get labels() {
        return this.#delivery.command.labels;
    }
    /** The idempotency key for the provider: the same in every attempt. */
    get outboundKey() {
        return this.#delivery.outbound_key;
    }
    /** The number of this call, from 1. */
    get attempt() {
        return this.#delivery.attempt;
    }
    /** No attempt begins after this time. */
    get deadline() {
        const { deadline } = this.#delivery;
        return deadline ? new Date(deadline) : undefined;
    }
    /** What an earlier attempt saved; null: nothing. */
    get checkpoint() {
        return this.#delivery.checkpoint ?? null;
    }
    get traceparent() {
        return this.#delivery.traceparent ?? undefined;
    }
    /** Keeps any JSON for the next attempt. */
    saveCheckpoint(value) {
        return this.#save(value);
    }
}
