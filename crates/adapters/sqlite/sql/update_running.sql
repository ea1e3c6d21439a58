-- Writes a row whose attempt runs and that does not go back into the queue. The columns of the queue's
-- indexes that such a row is not in are left alone, so that SQLite opens three indexes instead of seven.
UPDATE clinch_operation SET
    status = ?2, phase = ?3, version = ?4, fence = ?5, attempt_id = ?6, attempts = ?7,
    maybe_calls = ?8, deliveries = ?9, effect = ?10, first_call_at = ?11, call_deadline = ?12,
    lease_until = ?13, recorded = ?16, recorded_fence = ?17, flags = ?18, refund = ?19,
    refund_first_call_at = ?20, hold = ?21, failure = ?22, dispatch_no = ?23, started_at = ?24,
    finished_at = ?25, txn_id = ?26, result = ?27, need = ?29, need_at = ?30, failure_effect = ?31,
    ledger = ?32, last_error = ?34, claim_by = NULL, claim_until = NULL, claimed_at = NULL
WHERE seq = ?1 AND version = ?33
