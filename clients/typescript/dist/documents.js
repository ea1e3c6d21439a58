/**
 * The documents of the API. Members have the names of `/openapi.json`, times are RFC 3339 text.
 * A test compares every interface here with the schema of the same name in `SCHEMAS`.
 */
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
};
/** COMPLETED or FAILED: the state does not change any more. */
export function isSettled(operation) {
    return operation.state === "COMPLETED" || operation.state === "FAILED";
}
