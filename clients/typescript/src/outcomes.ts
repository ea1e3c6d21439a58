/** How a handler ends an attempt: return a value or `Done`, or throw one of the others. */

import { document } from "./client.js";
import type { Command, Json } from "./documents.js";

/** The longest time to wait that is reported: the API takes a whole number of milliseconds. */
const AFTER_MAX_MS = 1e12;

/** The provider applied the call. */
export class Done {
  readonly payload: Json;
  readonly txnId: string | undefined;
  readonly spawn: readonly Command[];

  /**
   * `spawn` are operations that are accepted in the commit that settles this one. Without an
   * `idem_key` of its own a spawned operation gets one that is the same in every attempt.
   */
  constructor(payload: Json = null, more: { txnId?: string; spawn?: readonly Command[] } = {}) {
    this.payload = payload;
    this.txnId = more.txnId;
    this.spawn = more.spawn ?? [];
  }
}

/** The attempt did not succeed; another one may. */
export class Retry extends Error {
  readonly applied: "no" | "unknown";
  readonly afterMs: number | undefined;

  /**
   * `applied: "no"`: the provider certainly did not apply the call, so it may be repeated on every
   * route. `applied: "unknown"`, the default: the call is repeated only where the route's `safety`
   * allows it, and otherwise held for an operator. `afterMs`: no attempt before that; what is not
   * a time counts as left out.
   */
  constructor(reason: string, more: { applied?: "no" | "unknown"; afterMs?: number } = {}) {
    super(reason);
    this.name = new.target.name;
    this.applied = more.applied ?? "unknown";
    // A mistake in the time must not hide that the call was not applied.
    const afterMs = Math.max(0, Math.round(Number(more.afterMs ?? Number.NaN)));
    this.afterMs = Number.isFinite(afterMs) ? Math.min(afterMs, AFTER_MAX_MS) : undefined;
  }
}

/** It is unknown whether the provider applied the call: a timeout, or a broken connection. */
export class Unknown extends Retry {
  constructor(reason: string, more: { afterMs?: number } = {}) {
    super(reason, { ...more, applied: "unknown" });
  }
}

/** The provider refused the call for good: the operation is FAILED, without an effect. */
export class Fail extends Error {
  readonly code: string;

  /** `cause` is the provider's own text, where it has one. */
  constructor(code: string, message = "", more: { cause?: string } = {}) {
    super(message, more);
    this.name = new.target.name;
    // A provider's code is often a number.
    this.code = String(code);
  }
}

/** The members of a report. */
export type Outcome = { type: "ok" | "retry" | "fail" } & Record<string, Json>;

/** What a handler returned instead of a result, because it did not do its work. */
export function undone(value: unknown): string | undefined {
  const result = value instanceof Done ? (value.payload as unknown) : value;
  if (result instanceof Retry || result instanceof Fail) return undefined;
  if (typeof result === "function") return "a function that was not called";
  if (result instanceof Error) return "an error: it must be thrown";
  if (typeof result !== "object" || result === null) return undefined;
  if ("then" in result && typeof result.then === "function") return "a promise that was not awaited";
  const isIterator = "next" in result && typeof result.next === "function";
  if (isIterator && (Symbol.iterator in result || Symbol.asyncIterator in result)) {
    return "a generator: a handler must not yield";
  }
  return undefined;
}

/** What is not an ok, for the API. */
export function outcomeOf(value: Retry | Fail): Outcome {
  if (value instanceof Retry) {
    const afterMs = value.afterMs === undefined ? {} : { after_ms: value.afterMs };
    return { type: "retry", reason: value.message, applied: value.applied, ...afterMs };
  }
  const cause = typeof value.cause === "string" ? { cause: value.cause } : {};
  return { type: "fail", code: value.code, message: value.message, ...cause };
}

/**
 * An ok for the API, and the names of its parts that are not JSON.
 *
 * Only these parts are left out: a result that cannot be written must not lose the operations that
 * follow. An operation that cannot be written is sent as null, which the server leaves out like any
 * other that it cannot read. So the server knows that one is missing, and alerts.
 */
export function written(done: Done, opId: string): { outcome: Outcome; leftOut: string[] } {
  const outcome: Outcome = { type: "ok", payload: done.payload ?? null };
  const leftOut: string[] = [];
  if (!isJson(done.payload)) {
    outcome["payload"] = null;
    leftOut.push("payload");
  }
  if (!isJson(done.txnId)) leftOut.push("provider_txn_id");
  else if (done.txnId !== undefined) outcome["provider_txn_id"] = done.txnId;
  let commands: Command[];
  try {
    commands = [...done.spawn];
  } catch {
    // Not a list.
    return { outcome: { ...outcome, spawn: [null] }, leftOut: [...leftOut, "spawn"] };
  }
  const spawn = commands.map((command, number) => spawned(command, `${opId}:${number}`));
  if (spawn.length > 0) outcome["spawn"] = spawn;
  for (const [number, one] of spawn.entries()) {
    if (one === null) leftOut.push(`spawn[${number}]`);
  }
  return { outcome, leftOut };
}

/** A command for the API. Null: it cannot be written. */
function spawned(command: Command, idemKey: string): Command | null {
  try {
    const whole = document(command, idemKey);
    return isJson(whole) ? whole : null;
  } catch {
    // Whatever a handler made of it.
    return null;
  }
}

function isJson(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return true;
  } catch {
    return false;
  }
}
