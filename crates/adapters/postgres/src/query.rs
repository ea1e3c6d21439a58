//! Every statement, one file each.
//!
//! A row of a large table is joined to a value by `= ANY (ARRAY[value])`, not by `= value`. Both are
//! the same lookup in an index, but the planner can use the second the other way round as well: read
//! the whole table in the order of its index, and compare each row with all values. It does so if the
//! table was empty when autovacuum looked at it, and queues often are. With 65,000 rows since then, a
//! settle of 1,000 took 40 s instead of 14 ms.

macro_rules! queries {
    ($($name:ident = $file:literal,)+) => {
        /// A statement of the adapter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Query {
            $($name,)+
        }

        impl Query {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("../sql/", $file, ".sql")),)+
                }
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $file,)+
                }
            }
        }
    };
}

queries! {
    Abandoned = "abandoned",
    Accept = "accept",
    AllLettersNewest = "all_letters_newest",
    AllLettersOldest = "all_letters_oldest",
    ApiKeyByHash = "api_key_by_hash",
    ApiKeys = "api_keys",
    Batches = "batches",
    BatchesForUpdate = "batches_for_update",
    Begun = "begun",
    Checkpoints = "checkpoints",
    Claim = "claim",
    ClearableDocuments = "clearable_documents",
    ClearDocuments = "clear_documents",
    CompleteLetters = "complete_letters",
    CountDocuments = "count_documents",
    CountDocumentsOfUser = "count_documents_of_user",
    DeletePause = "delete_pause",
    DeleteSpawns = "delete_spawns",
    Dequeue = "dequeue",
    DocumentNames = "document_names",
    DocumentNamesOfKind = "document_names_of_kind",
    DocumentNamesOfResource = "document_names_of_resource",
    DocumentNamesOfResourceKind = "document_names_of_resource_kind",
    DocumentNamesOfUser = "document_names_of_user",
    Documents = "documents",
    DocumentsOfKind = "documents_of_kind",
    DocumentsOfResourceKind = "documents_of_resource_kind",
    DocumentsOfUser = "documents_of_user",
    Domains = "domains",
    Due = "due",
    FirstDue = "first_due",
    FirstNeeding = "first_needing",
    FirstOverdue = "first_overdue",
    FoldDeltas = "fold_deltas",
    ForgetBatches = "forget_batches",
    ForgetProcess = "forget_process",
    ForgetQuotas = "forget_quotas",
    Fronts = "fronts",
    ForgetKeys = "forget_keys",
    ForgetRows = "forget_rows",
    HistoryForUpdate = "history_for_update",
    IdsByPrefix = "ids_by_prefix",
    InsertPause = "insert_pause",
    ImportLetters = "import_letters",
    IncompleteLetters = "incomplete_letters",
    InsertApiKey = "insert_api_key",
    InsertBatches = "insert_batches",
    InsertDeadLetters = "insert_dead_letters",
    InsertDomain = "insert_domain",
    InsertLedgerPages = "insert_ledger_pages",
    InsertStream = "insert_stream",
    InsertWorker = "insert_worker",
    Known = "known",
    LaneLocks = "lane_locks",
    LaneMembers = "lane_members",
    LastSeq = "last_seq",
    LedgerPages = "ledger_pages",
    LettersAccepted = "letters_accepted",
    LettersById = "letters_by_id",
    LettersForUpdate = "letters_for_update",
    LettersNewest = "letters_newest",
    LettersOldest = "letters_oldest",
    LineUp = "line_up",
    List = "list",
    ListBatches = "list_batches",
    ListOfBatch = "list_of_batch",
    ListOfKey = "list_of_key",
    LongInProgress = "long_in_progress",
    MarkLetters = "mark_letters",
    Needing = "needing",
    Notify = "notify",
    Now = "now",
    OldestDue = "oldest_due",
    OpenRoutes = "open_routes",
    Operations = "operations",
    Overdue = "overdue",
    Paused = "paused",
    Published = "published",
    PutBatches = "put_batches",
    PutCheckpoints = "put_checkpoints",
    PutDocuments = "put_documents",
    PutSeenAt = "put_seen_at",
    PutSpawns = "put_spawns",
    QuotaForUpdate = "quota_for_update",
    Records = "records",
    RecordsDown = "records_down",
    RecordsForUpdate = "records_for_update",
    RecordsUp = "records_up",
    RatePause = "rate_pause",
    RateResume = "rate_resume",
    RateReserve = "rate_reserve",
    Release = "release",
    ReleaseLock = "release_lock",
    RelocateDocuments = "relocate_documents",
    RevokeApiKey = "revoke_api_key",
    RowsForUpdate = "rows_for_update",
    Say = "say",
    SeenAt = "seen_at",
    SeenAtForUpdate = "seen_at_for_update",
    SetLetters = "set_letters",
    SetPaused = "set_paused",
    SetRedriven = "set_redriven",
    Settle = "settle",
    Silent = "silent",
    Spawns = "spawns",
    Streams = "streams",
    TakeLock = "take_lock",
    UpdateHistory = "update_history",
    UpdateLedgers = "update_ledgers",
    UpdateQuota = "update_quota",
    UpdateRows = "update_rows",
    WorkerByName = "worker_by_name",
    WorkersById = "workers_by_id",
    WriteRecords = "write_records",
}
