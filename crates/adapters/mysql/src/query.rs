//! Every statement, one file each. A name in braces stands for values, or for a list of columns
//! that several statements share.

const QUEUE_COLUMNS: &str = include_str!("../sql/queue_columns.sql");
const HISTORY_COLUMNS: &str = include_str!("../sql/history_columns.sql");
const REQUEST_COLUMNS: &str = include_str!("../sql/request_columns.sql");

macro_rules! queries {
    ($($name:ident = $file:literal,)+) => {
        /// A statement of the adapter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Query {
            $($name,)+
        }

        impl Query {
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("../sql/", $file, ".sql")),)+
                }
            }
        }
    };
}

queries! {
    Abandoned = "abandoned",
    AddCounts = "add_counts",
    ApiKeyByHash = "api_key_by_hash",
    ApiKeyById = "api_key_by_id",
    ApiKeys = "api_keys",
    Batches = "batches",
    Begun = "begun",
    Claim = "claim",
    ClearableDocuments = "clearable_documents",
    ClearDocuments = "clear_documents",
    CompleteBatch = "complete_batch",
    CompleteLetter = "complete_letter",
    CopyDocuments = "copy_documents",
    CountDocuments = "count_documents",
    DeleteCheckpoints = "delete_checkpoints",
    DeleteDeadLetters = "delete_dead_letters",
    DeleteDocuments = "delete_documents",
    DeleteHistory = "delete_history",
    DeleteKept = "delete_kept",
    DeleteKeys = "delete_keys",
    DeleteLanes = "delete_lanes",
    DeleteLedgerPages = "delete_ledger_pages",
    DeleteOldBatches = "delete_old_batches",
    DeletePause = "delete_pause",
    DeleteQueue = "delete_queue",
    DeleteRecords = "delete_records",
    DeleteRequests = "delete_requests",
    DeleteSpawns = "delete_spawns",
    DocumentNames = "document_names",
    Documents = "documents",
    Domains = "domains",
    DueOfStream = "due_of_stream",
    FirstOverdue = "first_overdue",
    FirstRows = "first_rows",
    ForgetProcess = "forget_process",
    FreeProcesses = "free_processes",
    HoldRecords = "hold_records",
    ImportLetter = "import_letter",
    IncompleteLetters = "incomplete_letters",
    InsertApiKey = "insert_api_key",
    InsertBatches = "insert_batches",
    InsertDeadLetter = "insert_dead_letter",
    InsertHistory = "insert_history",
    InsertKept = "insert_kept",
    InsertKeys = "insert_keys",
    InsertLaneMembers = "insert_lane_members",
    InsertLanes = "insert_lanes",
    InsertLedgerPage = "insert_ledger_page",
    InsertLock = "insert_lock",
    IdsByPrefix = "ids_by_prefix",
    ListBatches = "list_batches",
    InsertPause = "insert_pause",
    InsertQueue = "insert_queue",
    InsertRequests = "insert_requests",
    KnownKeys = "known_keys",
    LaneMembers = "lane_members",
    LastSeq = "last_seq",
    LeaveLane = "leave_lane",
    LedgerPages = "ledger_pages",
    Letters = "letters",
    LettersById = "letters_by_id",
    LineUp = "line_up",
    List = "list",
    Lock = "lock",
    LockBatches = "lock_batches",
    LockDocuments = "lock_documents",
    LockHistory = "lock_history",
    LockKeys = "lock_keys",
    LockLanesOf = "lock_lanes_of",
    LockLetters = "lock_letters",
    LockProcess = "lock_process",
    LockQueue = "lock_queue",
    LockRecords = "lock_records",
    LockSeenAt = "lock_seen_at",
    LongInProgress = "long_in_progress",
    MarkLetter = "mark_letter",
    NeedingOfLine = "needing_of_line",
    OldestAnnounced = "oldest_announced",
    OldestDue = "oldest_due",
    OldKept = "old_kept",
    OldRows = "old_rows",
    OpenLettersOf = "open_letters_of",
    OpenRoutes = "open_routes",
    Operations = "operations",
    Overdue = "overdue",
    Pauses = "pauses",
    Paused = "paused",
    Published = "published",
    PutBatch = "put_batch",
    PutCheckpoint = "put_checkpoint",
    PutDocuments = "put_documents",
    PutKey = "put_key",
    PutLock = "put_lock",
    PutPaused = "put_paused",
    PutProcess = "put_process",
    PutRecords = "put_records",
    PutSealed = "put_sealed",
    PutSeenAt = "put_seen_at",
    PutSpawn = "put_spawn",
    PutStream = "put_stream",
    RawPayloads = "raw_payloads",
    Records = "records",
    RecordsDown = "records_down",
    RecordsUp = "records_up",
    Release = "release",
    RevokeApiKey = "revoke_api_key",
    SeenAt = "seen_at",
    SetLetterStatus = "set_letter_status",
    SetRedriven = "set_redriven",
    SetRedrivenHistory = "set_redriven_history",
    Silent = "silent",
    SkipLanes = "skip_lanes",
    Spawns = "spawns",
    Streams = "streams",
    TakenIds = "taken_ids",
    UnlockProcess = "unlock_process",
    UpdateHistory = "update_history",
    UpdateLedger = "update_ledger",
    UpdateQueue = "update_queue",
}

impl Query {
    /// The statement with its values filled in.
    pub(crate) fn with(self, values: &[(&str, &str)]) -> String {
        fill(self.text(), values)
    }

    /// The same for a statement that reads rows; `whole` adds the columns of the request.
    pub(crate) fn of_rows(self, whole: bool, values: &[(&str, &str)]) -> String {
        let request = if whole { REQUEST_COLUMNS } else { "" };
        let columns = [
            ("queue", QUEUE_COLUMNS),
            ("history", HISTORY_COLUMNS),
            ("request", request),
        ];
        fill(&fill(self.text(), &columns), values)
    }

    /// The parts of a statement before and after its list of rows.
    pub(crate) fn around_rows(self) -> (&'static str, &'static str) {
        self.text()
            .split_once("{rows}")
            .unwrap_or((self.text(), ""))
    }
}

/// Replaces every `{name}` in one pass: braces inside a value are left alone.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template.trim_end();
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, left) = after.split_once('}').unwrap_or((after, ""));
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled.push_str(value.trim_end()),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = left;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_inside_a_value_are_left_alone() {
        let filled = fill("a {x} b {y}", &[("x", "{y}"), ("y", "1")]);
        assert_eq!(filled, "a {y} b 1");
    }
}
