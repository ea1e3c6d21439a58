/**
 * The documents of the API. Members have the names of `/openapi.json`, times are RFC 3339 text.
 * A test compares every interface here with the schema of the same name in `SCHEMAS`.
 */

/** Any JSON value. */
export type Json = unknown;

/** An operation to submit. `idem_key` is made up where it is left out. */
export interface Command {
  domain: string;
  event_type: string;
  biz_key: string;
  idem_key?: string | null;
  payload: Json;
  run_at?: string | null;
  deadline?: string | null;
  priority?: number | null;
  labels?: Record<string, string> | null;
}

/** An operation as the server knows it. */
export interface Operation {
  op_id: string;
  domain: string;
  event_type: string;
  biz_key: string;
  idem_key: string;
  /** PENDING, IN_PROGRESS, COMPLETED or FAILED. */
  state: string;
  /** Only while IN_PROGRESS: live, waiting or held. */
  phase?: string | null;
  attempts: number;
  seq?: number | null;
  version?: number | null;
  priority: number;
  labels: Record<string, string>;
  run_at?: string | null;
  deadline?: string | null;
  accepted_at?: string | null;
  started_at?: string | null;
  finished_at?: string | null;
  next_attempt_at?: string | null;
  /** Whether a call may have had its effect: none or unknown. */
  effect: string;
  late_ok: boolean;
  cancel_requested: boolean;
  hold?: Hold | null;
  redrive_of?: string | null;
  redriven_by?: string | null;
  batch_id?: string | null;
  trace_id?: string | null;
  result?: Result | null;
  failure?: Failure | null;
  last_error?: LastError | null;
  outbound_key?: string | null;
  destination?: string | null;
  pruned?: boolean;
}

/** Why an operation is not running now, such as backoff or effect_unknown. */
export interface Hold {
  reason: string;
  until?: string | null;
}

/** The provider's successful answer. */
export interface Result {
  provider_txn_id?: string | null;
  payload: Json;
}

/** Why an operation is FAILED. */
export interface Failure {
  code: string;
  message: string;
  cause?: string | null;
  effect: string;
}

/** The last error of an operation that has not completed. */
export interface LastError {
  code: string;
  message: string;
  at: string;
}

/** An RFC 9457 problem document. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  field?: string | null;
  op_id?: string | null;
}

/** The result of one operation of a bulk request: an operation, or an error. */
export interface BulkResult {
  status: number;
  op_id?: string | null;
  state?: string | null;
  replayed?: boolean | null;
  pruned?: boolean | null;
  error?: Problem | null;
}

/** A group of operations with one end. */
export interface Batch {
  batch_id: string;
  sealed: boolean;
  complete: boolean;
  total: number;
  completed: number;
  failed: number;
  completed_at?: string | null;
}

/** The command of a leased operation. */
export interface LeasedCommand {
  domain: string;
  event_type: string;
  biz_key: string;
  idem_key: string;
  payload: Json;
  run_at?: string | null;
  deadline?: string | null;
  priority: number;
  labels: Record<string, string>;
}

/** A leased attempt. The token is a secret of this worker. */
export interface Delivery {
  op_id: string;
  fence: number;
  token: string;
  lease_until?: string | null;
  attempt: number;
  outbound_key: string;
  deadline?: string | null;
  checkpoint?: Json;
  traceparent?: string | null;
  command: LeasedCommand;
}

/** The operation after a worker's report. */
export interface LeaseState {
  op_id: string;
  state: string;
  phase?: string | null;
  fence: number;
  cancel_requested: boolean;
  lease_until?: string | null;
  left_out?: string[];
}

/** The schema in `/openapi.json` of each interface. */
export const SCHEMAS = {
  Command: "SubmitDocument",
  Operation: "OperationDocument",
  Hold: "HoldDocument",
  Result: "ResultDocument",
  Failure: "FailureDocument",
  LastError: "LastErrorDocument",
  Problem: "ProblemDocument",
  BulkResult: "BulkResult",
  Batch: "BatchDocument",
  LeasedCommand: "CommandDocument",
  Delivery: "DeliveryDocument",
  LeaseState: "LeaseState",
} as const;

/** COMPLETED or FAILED: the state does not change any more. */
export function isSettled(operation: Operation): boolean {
  return operation.state === "COMPLETED" || operation.state === "FAILED";
}
