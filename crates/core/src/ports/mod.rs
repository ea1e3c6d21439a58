//! The traits that the engine needs and adapters implement. Each bullet on a method is a behaviour,
//! and each behaviour is a case of the contract suite.
//!
//! Every method that touches storage takes a slice: a single caller is a batch of one. Results come
//! back in the order of the slice, one per item. `Err` means that the whole call changed nothing,
//! unless its kind is [`ErrorKind::Ambiguous`](crate::ErrorKind).

mod api_keys;
mod batches;
mod bus;
mod documents;
mod domains;
mod executor;
mod guard;
mod inspect;
mod letters;
mod lock;
mod notes;
mod outbox;
mod quota;
mod records;
mod recovery;
mod sealer;
mod sink;
mod store;
mod telemetry;
mod topic;
mod world;

pub use api_keys::{ApiKey, ApiKeys, Restriction, Scope};
pub use batches::{Batch, Batches, NewBatch};
pub use bus::{Bus, Delivery, Depth, Dequeue, Hint, Publication, Receipt};
pub use documents::{
    DOCUMENT_BYTES_MAX, DOCUMENT_ID_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_MAX, Document,
    DocumentFilter, DocumentName, DocumentSink, check_document_search, check_documents,
    check_relocation,
};
pub use domains::{DomainView, Domains, NewPause, OpenRoute, Pause};
pub use executor::{Attempt, Executor, Probe, ProbeVerdict};
pub use guard::{
    Admission, Admitted, Bulkhead, CircuitBreaker, CircuitChange, CircuitState, CircuitStatus,
    CircuitWatcher, Fallback, Gate, HedgePolicy, LoadShed, Opened, Permit, RateLimiter, Reason,
    Rejection, RetryBudget, Room, TimeoutPolicy, Unguarded, Verdict,
};
pub use inspect::{
    COUNTERS, Counts, Filter, FoundId, Inspect, LedgerLine, OfRoute, Operation, PAGE_BYTES_MAX,
    PAGE_MAX, Page, ResultRecord, SEARCH_MAX,
};
pub use letters::{
    DeadLetter, LetterAction, LetterChange, LetterChanged, LetterFilter, LetterOrder, LetterState,
    LetterStatus, LetterView, fingerprint,
};
pub use lock::{LockManager, Tenure};
pub use notes::{NewNote, NoteEvent};
pub use outbox::{Among, Claim, Claimed, Outbox, Silence};
pub use quota::Quota;
pub use records::{
    Expected, KeyRange, RECORD_BYTES_MAX, RECORD_KEY_BYTES_MAX, RECORDS_MAX, Record, RecordList,
    RecordWrite, Records, STORE_RECORD, check_record_keys, check_record_writes,
};
pub use recovery::{Prune, Pruned, Recovery, Scan};
pub use sealer::{PlainText, Sealer};
pub use sink::{Alert, AlertNote, Journal, JournalRecords, Severity};
pub use store::{
    Accepted, Amendment, Answer, AnswerBody, BeginRequest, Changed, Extension, Known, NewOperation,
    Refused, Reschedule, Store, StoredOk, Write, Written,
};
pub use telemetry::{
    Level, Meter, MetricLabels, StageEnd, Tags, Tracer, Untold, Work, is_traceparent,
};
pub use topic::Topic;
pub use world::{Clock, Ids, Notice, Notices, Spawner};
