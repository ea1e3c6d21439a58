/** What a handler gets. */

import type { Delivery, Json } from "./documents.js";

/** An attempt: what a handler gets. */
export class Call<P = Json> {
  /** An operator asked to cancel the operation: make no further call. */
  cancelRequested = false;
  /** Another worker may have the operation now. An ok of this attempt still counts. */
  leaseLost = false;
  /** Aborted when the worker has to stop and the handler did not end in time. */
  readonly signal: AbortSignal;
  readonly #delivery: Delivery;
  readonly #save: (value: Json) => Promise<void>;

  /** @internal */
  constructor(delivery: Delivery, save: (value: Json) => Promise<void>, signal: AbortSignal) {
    this.#delivery = delivery;
    this.#save = save;
    this.signal = signal;
  }

  get opId(): string {
    return this.#delivery.op_id;
  }

  get domain(): string {
    return this.#delivery.command.domain;
  }

  get eventType(): string {
    return this.#delivery.command.event_type;
  }

  get bizKey(): string {
    return this.#delivery.command.biz_key;
  }

  /** The key of the caller. Send `outboundKey` to the provider, not this one. */
  get idemKey(): string {
    return this.#delivery.command.idem_key;
  }

  get payload(): P {
    return this.#delivery.command.payload as P;
  }

  get labels(): Record<string, string> {
    return this.#delivery.command.labels;
  }

  /** The idempotency key for the provider: the same in every attempt. */
  get outboundKey(): string {
    return this.#delivery.outbound_key;
  }

  /** The number of this call, from 1. */
  get attempt(): number {
    return this.#delivery.attempt;
  }

  /** No attempt begins after this time. */
  get deadline(): Date | undefined {
    const { deadline } = this.#delivery;
    return deadline ? new Date(deadline) : undefined;
  }

  /** What an earlier attempt saved; null: nothing. */
  get checkpoint(): Json {
    return this.#delivery.checkpoint ?? null;
  }

  get traceparent(): string | undefined {
    return this.#delivery.traceparent ?? undefined;
  }

  /** Keeps any JSON for the next attempt. */
  saveCheckpoint(value: Json): Promise<void> {
    return this.#save(value);
  }
}
