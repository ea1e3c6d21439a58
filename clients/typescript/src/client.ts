/** The client. */

import {
  type Batch,
  type BulkResult,
  type Command,
  type Json,
  type Operation,
  isSettled,
} from "./documents.js";
import { ClinchError, NotSettled, OperationFailed, errorOf } from "./errors.js";
import { Connection, type ConnectionOptions, pause, uuid } from "./request.js";

/** The longest wait that the server allows. */
const WAIT_MAX_MS = 60_000;
/** Operations of one bulk request. */
const BULK_MAX = 10_000;
/** The longest pause between two looks at a batch. */
const BATCH_PAUSE_MAX_MS = 1_000;

export interface ClientOptions extends ConnectionOptions {
  /**
   * How long a request is repeated while the server cannot be reached or answers 429 or 503;
   * 30 s by default. Repeats carry the same keys and have the effect of one request.
   */
  budgetMs?: number;
}

export interface CallOptions {
  /** Instead of the client's budget. */
  budgetMs?: number;
  /** Ends the call. An operation that was submitted goes on. */
  signal?: AbortSignal;
}

export interface SubmitOptions extends CallOptions {
  /** How long to wait until the operation is settled; 2 s by default. */
  waitMs?: number;
  /** The W3C trace that the operation belongs to. */
  traceparent?: string;
}

export interface WaitOptions extends CallOptions {
  /** 60 s by default. */
  timeoutMs?: number;
}

/** Which operations are listed. */
export interface Filter {
  domain?: string;
  event_type?: string;
  biz_key?: string;
  idem_key?: string;
  provider_txn_id?: string;
  /** PENDING, IN_PROGRESS, COMPLETED or FAILED. */
  state?: string;
  /** live, waiting or held. */
  phase?: string;
  /** `name=value` */
  label?: string;
  batch_id?: string;
  destination?: string;
  /** The code of a failure, a hold or a last error. */
  code?: string;
  /** Accepted at or after, RFC 3339. */
  from?: string;
  /** Accepted before, RFC 3339. */
  to?: string;
}

/** The payload of the result. Throws `OperationFailed` or `NotSettled`. */
export function resultOf<T = Json>(operation: Operation): T {
  if (operation.state === "FAILED") throw new OperationFailed(operation);
  if (!isSettled(operation)) {
    throw new NotSettled(`${operation.op_id} is ${operation.state}`, operation);
  }
  return operation.result?.payload as T;
}

/** The id of an accepted operation of a bulk request. Throws the error of a refused one. */
export function acceptedId(result: BulkResult): string {
  if (result.op_id) return result.op_id;
  if (result.error) throw errorOf(result.error);
  throw new ClinchError("the result names neither an operation nor an error");
}

/** A command for the API. */
export function document(command: Command, idemKey: string): Command {
  return { ...command, idem_key: command.idem_key ?? idemKey, payload: command.payload ?? null };
}

/** A client of the API. */
export class Client {
  readonly #connection: Connection;
  readonly #budgetMs: number;

  constructor(url = "http://127.0.0.1:7070", options: ClientOptions = {}) {
    this.#connection = new Connection(url, options);
    this.#budgetMs = options.budgetMs ?? 30_000;
  }

  /**
   * Submits an operation and waits until it is settled, for `waitMs` at most.
   *
   * Without `idem_key` a new key is made up. Pass your own key where your program may call this
   * again for the same thing, for example after a crash.
   */
  async submit(command: Command, options: SubmitOptions = {}): Promise<Operation> {
    const waitMs = options.waitMs ?? 2_000;
    const first = Math.min(waitMs, WAIT_MAX_MS);
    const until = performance.now() + waitMs;
    const { traceparent } = options;
    const reply = await this.#connection.send<Operation>("submit", {
      ...this.#of(options),
      // Made up once: every repeat of the request has the same key.
      body: JSON.stringify(document(command, uuid())),
      query: { wait: `${Math.round(first)}ms` },
      headers: traceparent ? { traceparent } : {},
      waitMs: first,
    });
    if (isSettled(reply.json) || waitMs <= WAIT_MAX_MS) return reply.json;
    return this.#settledBy(reply.json.op_id, until, options);
  }

  /**
   * Submits an operation and returns the payload of its result. Throws `OperationFailed`, or
   * `NotSettled` after `timeoutMs`; Clinch keeps working on the operation then.
   */
  async call<T = Json>(
    command: Command,
    options: WaitOptions & { traceparent?: string } = {},
  ): Promise<T> {
    const { timeoutMs = 60_000, ...rest } = options;
    return resultOf<T>(await this.submit(command, { ...rest, waitMs: timeoutMs }));
  }

  /**
   * Submits operations, 10,000 in one commit, and does not wait for them. The results are in the
   * order of the commands. A refused command fails alone.
   */
  submitMany(commands: readonly Command[], options: CallOptions = {}): Promise<BulkResult[]> {
    return this.#bulk(commands, undefined, options);
  }

  /** The operation as it is now. */
  async get(opId: string, options: CallOptions = {}): Promise<Operation> {
    return this.#get(opId, 0, options);
  }

  /** Waits until an operation is settled. Throws `NotSettled` after `timeoutMs`. */
  async wait(opId: string, options: WaitOptions = {}): Promise<Operation> {
    const timeoutMs = options.timeoutMs ?? 60_000;
    const operation = await this.#settledBy(opId, performance.now() + timeoutMs, options);
    if (isSettled(operation)) return operation;
    const message = `${opId} is ${operation.state} after ${timeoutMs} ms; Clinch keeps working on it`;
    throw new NotSettled(message, operation);
  }

  /** Operations, newest first, page by page while you iterate. */
  async *operations(
    filter: Filter = {},
    options: CallOptions & { pageSize?: number } = {},
  ): AsyncGenerator<Operation, void, void> {
    let cursor: string | null | undefined;
    do {
      type Page = { operations: Operation[]; next_cursor?: string | null };
      const query = { ...filter, limit: options.pageSize, cursor };
      const reply = await this.#connection.send<Page>("list", { ...this.#of(options), query });
      yield* reply.json.operations;
      cursor = reply.json.next_cursor;
    } while (cursor);
  }

  /** Allows no further call. An attempt that is running ends first. */
  async cancel(opId: string, reason?: string, options: CallOptions = {}): Promise<Operation> {
    const reply = await this.#connection.send<Operation>("cancel", {
      ...this.#of(options),
      path: { op_id: opId },
      body: JSON.stringify({ reason: reason ?? null }),
    });
    return reply.json;
  }

  /** Opens a batch. `onComplete` is accepted in the commit that completes the batch. */
  async openBatch(
    options: CallOptions & { batchId?: string; onComplete?: Command } = {},
  ): Promise<Batch> {
    const { batchId = uuid(), onComplete } = options;
    const body = {
      batch_id: batchId,
      ...(onComplete ? { on_complete: document(onComplete, uuid()) } : {}),
    };
    return this.#batch("openBatch", undefined, options, body);
  }

  /** Submits operations as members of a batch. */
  addToBatch(
    batchId: string,
    commands: readonly Command[],
    options: CallOptions = {},
  ): Promise<BulkResult[]> {
    return this.#bulk(commands, batchId, options);
  }

  /** Ends the batch: it takes no more members. */
  sealBatch(batchId: string, options: CallOptions = {}): Promise<Batch> {
    return this.#batch("sealBatch", batchId, options, {});
  }

  /** The batch as it is now. */
  batch(batchId: string, options: CallOptions = {}): Promise<Batch> {
    return this.#batch("getBatch", batchId, options);
  }

  /** Waits until every member of a sealed batch is settled. */
  async waitBatch(batchId: string, options: WaitOptions = {}): Promise<Batch> {
    const timeoutMs = options.timeoutMs ?? 60_000;
    const until = performance.now() + timeoutMs;
    for (let own = 50; ; own = Math.min(own * 2, BATCH_PAUSE_MAX_MS)) {
      const batch = await this.batch(batchId, options);
      if (batch.complete) return batch;
      const left = until - performance.now();
      if (left <= 0) {
        const done = batch.completed + batch.failed;
        throw new NotSettled(`batch ${batchId}: ${done} of ${batch.total} settled after ${timeoutMs} ms`);
      }
      await pause(Math.min(own, left), options.signal);
    }
  }

  /** Batches, newest first, page by page while you iterate. */
  async *batches(
    options: CallOptions & { pageSize?: number } = {},
  ): AsyncGenerator<Batch, void, void> {
    let cursor: string | null | undefined;
    do {
      type Page = { batches: Batch[]; next_cursor?: string | null };
      const query = { limit: options.pageSize, cursor };
      const reply = await this.#connection.send<Page>("listBatches", {
        ...this.#of(options),
        query,
      });
      yield* reply.json.batches;
      cursor = reply.json.next_cursor;
    } while (cursor);
  }

  #of(options: CallOptions) {
    return { budgetMs: options.budgetMs ?? this.#budgetMs, signal: options.signal };
  }

  async #get(opId: string, waitMs: number, options: CallOptions): Promise<Operation> {
    const reply = await this.#connection.send<Operation>("get", {
      ...this.#of(options),
      path: { op_id: opId },
      query: waitMs > 0 ? { wait: `${Math.round(waitMs)}ms` } : {},
      waitMs,
    });
    return reply.json;
  }

  async #settledBy(opId: string, until: number, options: CallOptions): Promise<Operation> {
    for (;;) {
      const began = performance.now();
      const waitMs = Math.min(Math.max(until - began, 0), WAIT_MAX_MS);
      const operation = await this.#get(opId, waitMs, options);
      const now = performance.now();
      if (isSettled(operation) || now >= until) return operation;
      // A server that stops answers at once: do not ask in a tight loop.
      if (now - began < 50) await pause(Math.min(200, until - now), options.signal);
    }
  }

  async #bulk(
    commands: readonly Command[],
    batchId: string | undefined,
    options: CallOptions,
  ): Promise<BulkResult[]> {
    const documents = commands.map((command) => document(command, uuid()));
    const results: BulkResult[] = [];
    for (let start = 0; start < documents.length; start += BULK_MAX) {
      const body = JSON.stringify({ operations: documents.slice(start, start + BULK_MAX) });
      const request = { ...this.#of(options), body };
      type Results = { results: BulkResult[] };
      const reply =
        batchId === undefined
          ? await this.#connection.send<Results>("bulk", request)
          : await this.#connection.send<Results>("addToBatch", {
              ...request,
              path: { batch_id: batchId },
            });
      results.push(...reply.json.results);
    }
    return results;
  }

  async #batch(
    name: "openBatch" | "getBatch" | "sealBatch",
    batchId: string | undefined,
    options: CallOptions,
    body?: object,
  ): Promise<Batch> {
    const reply = await this.#connection.send<Batch>(name, {
      ...this.#of(options),
      path: batchId === undefined ? {} : { batch_id: batchId },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return reply.json;
  }
}
