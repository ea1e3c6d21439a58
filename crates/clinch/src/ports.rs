//! Ports that a program implements for the builder, and ports of the store that an application
//! reads and writes. Whoever writes a store or a bus implements those of `clinch-core`.

pub use clinch_core::ports::{
    Alert, AlertNote, Attempt, Clock, Executor, Journal, JournalRecords, Level, LoadShed, Meter,
    MetricLabels, PlainText, Probe, ProbeVerdict, Sealer, Severity, Spawner, Tags, Tracer, Work,
};
pub use clinch_core::ports::{
    Batch, CircuitState, DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink,
    DomainView, Domains, Expected, Filter, Inspect, KeyRange, LockManager, NewOperation, Operation,
    PAGE_BYTES_MAX, Page, Quota, Record, RecordList, RecordWrite, Records,
};
