//! Every statement by name; its text is in `sql/`, one query per file. What several statements begin
//! with is in `sql/parts/`.

/// Names the statements, and numbers them so that a prepared statement is found without its text.
macro_rules! statements {
    ($($name:ident = $file:literal $(after $($part:literal)+)?),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Query { $($name),+ }

        impl Query {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $file),+
                }
            }

            pub(crate) const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!(
                        $($(include_str!(concat!("../sql/parts/", $part, ".sql")),)+)?
                        include_str!(concat!("../sql/", $file, ".sql")),
                    )),+
                }
            }
        }
    };
}

statements! {
    Abandoned = "abandoned",
    AllLettersNewest = "all_letters_newest" after "letter" "letter_filter",
    AllLettersOldest = "all_letters_oldest" after "letter" "letter_filter",
    AnnouncedDue = "announced_due",
    ApiKeyByHash = "api_key_by_hash",
    ApiKeyById = "api_key_by_id",
    ApiKeys = "api_keys",
    ApiKeysUnrestricted = "api_keys_unrestricted",
    Batch = "batch",
    BeginRead = "begin_read",
    BeginWrite = "begin_write",
    ClearableDocuments = "clearable_documents",
    Commit = "commit",
    Checkpoint = "checkpoint",
    Claim = "claim",
    ClearNewKeys = "clear_new_keys",
    ClearSlice = "clear_slice",
    CompleteBatch = "complete_batch",
    CompleteLetter = "complete_letter",
    CountDocuments = "count_documents",
    CountDocumentsOfUser = "count_documents_of_user",
    DataVersion = "data_version",
    DeleteApiKey = "delete_api_key",
    DeleteCheckpoint = "delete_checkpoint",
    DeleteDeadLetter = "delete_dead_letter",
    DeleteDocument = "delete_document",
    DeleteKeptKey = "delete_kept_key",
    DeleteKey = "delete_key",
    DeleteKeyMid = "delete_key_mid",
    DeleteKeyNew = "delete_key_new",
    DeleteLedgerPages = "delete_ledger_pages",
    DeleteOldBatches = "delete_old_batches",
    DeleteOperation = "delete_operation",
    DeletePause = "delete_pause",
    DeletePassed = "delete_passed",
    DeleteRecord = "delete_record",
    DeleteRequest = "delete_request",
    DeleteSpawn = "delete_spawn",
    DocumentNames = "document_names",
    DocumentNamesOfKind = "document_names_of_kind",
    DocumentNamesOfResource = "document_names_of_resource",
    DocumentNamesOfResourceKind = "document_names_of_resource_kind",
    DocumentNamesOfUser = "document_names_of_user",
    Documents = "documents",
    DocumentsOfKind = "documents_of_kind",
    DocumentsOfResourceKind = "documents_of_resource_kind",
    DocumentsOfUser = "documents_of_user",
    Domain = "domain",
    Domains = "domains",
    EndOfSlice = "end_of_slice",
    HasLive = "has_live",
    HasOperation = "has_operation",
    HintOf = "hint_of",
    DueRows = "due_rows",
    IncompleteLetters = "incomplete_letters",
    InsertApiKey = "insert_api_key",
    InsertBatch = "insert_batch",
    InsertDeadLetter = "insert_dead_letter",
    InsertKeptKey = "insert_kept_key",
    InsertKey = "insert_key",
    InsertLedgerPage = "insert_ledger_page",
    InsertName = "insert_name",
    InsertOperation = "insert_operation",
    InsertPause = "insert_pause",
    InsertPassed = "insert_passed",
    InsertRequest = "insert_request",
    JoinLane = "join_lane",
    KeptKey = "kept_key",
    KeyedOperation = "keyed_operation",
    KeysByHash = "keys_by_hash",
    LaneMembers = "lane_members",
    LaneOf = "lane_of",
    LastOpId = "last_op_id",
    LastSeq = "last_seq",
    LeaveLane = "leave_lane",
    LedgerPages = "ledger_pages",
    LetterById = "letter_by_id" after "letter",
    LettersAccepted = "letters_accepted" after "letter" "letter_filter",
    LettersNewest = "letters_newest" after "letter" "letter_filter",
    LettersOldest = "letters_oldest" after "letter" "letter_filter",
    LetterStatus = "letter_status",
    LineUp = "line_up",
    IdsByPrefix = "ids_by_prefix",
    ListBatches = "list_batches",
    List = "list" after "operation" "filter",
    ListOfBatch = "list_of_batch" after "operation" "filter",
    ListOfKey = "list_of_key" after "operation" "filter",
    Lock = "lock",
    LongInProgress = "long_in_progress",
    MarkDeadLetter = "mark_dead_letter",
    MergeNewKeys = "merge_new_keys",
    MergeSlice = "merge_slice",
    NameById = "name_by_id",
    NameByText = "name_by_text",
    Needing = "needing",
    NewKeys = "new_keys",
    NextAnnouncedType = "next_announced_type",
    NextDue = "next_due",
    NextEventType = "next_event_type",
    NextRank = "next_rank",
    NextRounds = "next_rounds",
    NextClaimable = "next_claimable",
    NextNeeding = "next_needing",
    NextOverdue = "next_overdue",
    OldFailed = "old_failed",
    OldKeptKeys = "old_kept_keys",
    OpenOperations = "open_operations",
    OpenRoutes = "open_routes",
    OperationById = "operation_by_id" after "operation",
    OperationBySeq = "operation_by_seq" after "operation",
    OperationsLive = "operations_live" after "operation",
    Overdue = "overdue",
    Pause = "pause",
    PassedRows = "passed_rows",
    Prunable = "prunable",
    Pruned = "pruned",
    Published = "published",
    PutBatch = "put_batch",
    PutCheckpoint = "put_checkpoint",
    PutDocument = "put_document",
    PutDomain = "put_domain",
    PutLock = "put_lock",
    PutPruned = "put_pruned",
    PutRecord = "put_record",
    PutSeenAt = "put_seen_at",
    PutSpawn = "put_spawn",
    PutStore = "put_store",
    Record = "record",
    RecordVersion = "record_version",
    RecordsDown = "records_down",
    RecordsUp = "records_up",
    Release = "release",
    RelocateDocument = "relocate_document",
    RequestBySeq = "request_by_seq",
    RevokeApiKey = "revoke_api_key",
    RevokeApiKeys = "revoke_api_keys",
    RowById = "row_by_id" after "row",
    RowBySeq = "row_by_seq" after "row",
    SeenAt = "seen_at",
    SetLetterStatus = "set_letter_status",
    SetRedriven = "set_redriven",
    SettledRows = "settled_rows",
    Silent = "silent",
    Spawn = "spawn",
    Store = "store",
    UpdateLedger = "update_ledger",
    UpdateOperation = "update_operation",
    UpdateRunning = "update_running",
}

impl Query {
    /// Whether the statement begins or ends a transaction.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::BeginRead | Self::BeginWrite | Self::Commit)
    }
}
