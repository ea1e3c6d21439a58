//! Ports that a program implements for the builder, and ports of the store that an application
//! reads and writes. Whoever writes a store or a bus implements those of `clinch-core`.
//!
//! An executor and a probe without typed input and output, for a client that is there already:
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use clinch::ports::{Attempt, Executor, Probe, ProbeVerdict};
//! use clinch::types::{Envelope, Outcome, Payload, Success};
//! use clinch::{Backend, Clinch, Retry, Route};
//!
//! struct Psp;
//!
//! #[async_trait]
//! impl Executor for Psp {
//!     async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
//!         if attempt.refusal().is_some() {
//!             return Outcome::Retry(Retry::not_called("the lease ended"));
//!         }
//!         // … send `envelope.command.payload` under the key `envelope.outbound_key` …
//!         # let _ = envelope;
//!         Outcome::Ok(Success::new(Payload::null()))
//!     }
//! }
//!
//! #[async_trait]
//! impl Probe for Psp {
//!     async fn probe(&self, _envelope: &Envelope) -> ProbeVerdict {
//!         ProbeVerdict::NotFound
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let charge: Route<u64, ()> = Route::new("payments", "charge");
//! let clinch = Clinch::builder()
//!     .backend(Backend::memory())
//!     .execute_with(&charge, Arc::new(Psp))
//!     .probe_with(&charge, Arc::new(Psp))
//!     .build()?;
//! let request = charge.request("order-1", "a", &5);
//! let handle = clinch.start(request, std::time::Duration::from_secs(2)).await?;
//! assert!(handle.settled().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! What a process may need of its surroundings: sealed payloads, alerts, files of last resort, load shedding, metrics
//! and traces.
//!
//! ```
//! use std::sync::Mutex;
//! use std::time::Duration;
//! use async_trait::async_trait;
//! use clinch::ports::{
//!     Alert, AlertNote, Journal, JournalRecords, Level, LoadShed, Meter, MetricLabels, PlainText, Sealer, Severity,
//!     Tags, Tracer, Work,
//! };
//! use clinch::types::{Command, OpId, Sealed};
//! use clinch::{Backend, Clinch, Result};
//!
//! /// Pages somebody for what cannot wait.
//! struct Pager;
//!
//! #[async_trait]
//! impl Alert for Pager {
//!     async fn raise(&self, note: &AlertNote) -> Result<()> {
//!         if note.severity == Severity::Critical {
//!             eprintln!("{}: {}", note.code, note.message);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! /// Stands in for a cipher; bytes of one operation do not open for another.
//! struct Mask;
//!
//! impl Sealer for Mask {
//!     fn seal(&self, op: OpId, plain: &[u8]) -> Result<Sealed> {
//!         let key = op.to_string().into_bytes();
//!         let masked = plain.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
//!         Ok(Sealed::new(masked.collect()))
//!     }
//!
//!     fn open(&self, op: OpId, sealed: &Sealed) -> Result<Vec<u8>> {
//!         Ok(self.seal(op, sealed.as_bytes())?.as_bytes().to_vec())
//!     }
//! }
//!
//! /// Keeps answers that the store did not take. A real one is durable.
//! #[derive(Default)]
//! struct InMemory(Mutex<Vec<Vec<u8>>>);
//!
//! #[async_trait]
//! impl Journal for InMemory {
//!     async fn append(&self, records: &[Vec<u8>]) -> Result<()> {
//!         self.0.lock().expect("no panic").extend_from_slice(records);
//!         Ok(())
//!     }
//!
//!     async fn read(&self) -> Result<JournalRecords> {
//!         let kept = self.0.lock().expect("no panic").clone();
//!         Ok(JournalRecords { records: (1..).zip(kept).collect(), damaged: 0 })
//!     }
//!
//!     async fn forget(&self, through: u64) -> Result<()> {
//!         let mut kept = self.0.lock().expect("no panic");
//!         let count = usize::try_from(through).unwrap_or(usize::MAX).min(kept.len());
//!         kept.drain(..count);
//!         Ok(())
//!     }
//! }
//!
//! /// Turns work away whose queue is older than ten seconds.
//! struct Impatient;
//!
//! impl LoadShed for Impatient {
//!     fn shed(&self, _command: &Command, oldest_due: Duration) -> Option<Duration> {
//!         oldest_due.checked_sub(Duration::from_secs(10))
//!     }
//! }
//!
//! /// Counts and logs on standard error.
//! struct Told;
//!
//! impl Meter for Told {
//!     fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64) {
//!         eprintln!("{counter} {labels:?} +{count}");
//!     }
//!     fn record(&self, _histogram: &'static str, _labels: MetricLabels<'_>, _value: Duration) {}
//!     fn set(&self, _gauge: &'static str, _labels: MetricLabels<'_>, _value: f64) {}
//! }
//!
//! impl Tracer for Told {
//!     fn context(&self) -> Option<String> {
//!         None
//!     }
//!     fn within<'a>(&self, _stage: &'static str, _tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
//!         work
//!     }
//!     fn log(&self, level: Level, message: &'static str, tags: &Tags<'_>) {
//!         if level >= Level::Warn {
//!             eprintln!("{message} {:?}", tags.op_id);
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! use std::sync::Arc;
//! use clinch::types::Telemetry;
//!
//! let sealed_or_not: Box<dyn Sealer> = if cfg!(test) { Box::new(PlainText) } else { Box::new(Mask) };
//! # let _ = sealed_or_not;
//! let clinch = Clinch::builder()
//!     .backend(Backend::memory())
//!     .sealer(Mask)
//!     .alert(Pager)
//!     .safety_net(InMemory::default(), InMemory::default())
//!     .shed(Impatient)
//!     .telemetry(Telemetry::default().also(Arc::new(Told), Arc::new(Told)))
//!     .build()?;
//! clinch.alert("till_open", "close the till", None).await;
//!
//! // A program that only reads the file of dead letters back into the store.
//! let letters = InMemory::default();
//! let importer = Clinch::builder().backend(Backend::memory()).dead_letter_file(letters).build()?;
//! assert_eq!(importer.runtime().import_dead_letters().await?.new, 0);
//! # Ok(())
//! # }
//! ```
//!
//! What an application reads and writes on the store of its operations:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use clinch::backend::{BusUrl, Opened, Options, StoreUrl};
//! use clinch::ports::{
//!     Batch, DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, DomainView, Domains, Expected, Filter,
//!     Inspect, KeyRange, LockManager, NewOperation, Operation, PAGE_BYTES_MAX, Page, Record, RecordList, RecordWrite,
//!     Records, Spawner,
//! };
//! use clinch::types::WorkerId;
//! use clinch::{Clinch, Route};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let opened = Opened::open(&StoreUrl::Memory, &BusUrl::Store, &Options::default()).await?;
//!
//! // Records: every change is a compare-and-set.
//! let records: Arc<dyn Records> = opened.records.clone();
//! let write = RecordWrite { key: "tills/1".into(), expected: Expected::Absent, body: Some("open".into()) };
//! assert!(records.write_records(&[write.clone()]).await?);
//! assert!(!records.write_records(&[write]).await?, "it exists now");
//! let list = RecordList { prefix: "tills/".into(), descending: false, after: None, limit: 10 };
//! let found: Vec<Record> = records.list_records(&list).await?;
//! assert_eq!((found[0].version, found[0].body.as_str()), (1, "open"));
//! let range: KeyRange = list.range();
//! assert_eq!((range.from.as_str(), range.until.as_str()), ("tills/", "tills0"));
//!
//! // Documents: the same id again replaces a document.
//! let documents: Arc<dyn DocumentSink> = opened.documents.clone();
//! let receipt = Document {
//!     id: "receipt-7".into(), kind: "receipt".into(), user: "ann".into(), resource: "till-1".into(), body: "{}".into(),
//! };
//! documents.upsert("receipts", &[receipt]).await?;
//! let of_ann = DocumentFilter { user: Some("ann".into()), ..DocumentFilter::default() };
//! let names: Vec<DocumentName> = documents.list("receipts", &of_ann, None, DOCUMENTS_MAX).await?;
//! assert_eq!(names[0].id, "receipt-7");
//!
//! // Locks: every write under one carries its fence.
//! let locks: Arc<dyn LockManager> = opened.locks.clone();
//! let me = WorkerId::new("till-1")?;
//! assert!(locks.take("closing", &me, Duration::from_secs(60)).await?.is_some());
//!
//! // Operations: a page of them, and the counters of each domain.
//! let inspect: Arc<dyn Inspect> = opened.backend.inspect();
//! let domains: Arc<dyn Domains> = opened.backend.domains();
//! let charge: Route<u64, ()> = Route::new("payments", "charge");
//! let clinch = Clinch::builder().backend(opened.backend).remote(&charge).build()?;
//! clinch.submit(vec![charge.request("order-1", "a", &5)]).await?;
//! let page: Page<Operation> = inspect.list(&Filter::default(), None, 10).await?;
//! assert_eq!(page.items.len(), 1);
//! assert!(page.items[0].payload.len() < PAGE_BYTES_MAX);
//! let views: Vec<DomainView> = domains.domains().await?;
//! assert_eq!(views[0].counts.pending, 1);
//!
//! // An operation for `accept_in` of an SQL store, and the state of a batch.
//! let prepared: NewOperation = clinch.prepare(charge.request("order-2", "a", &5))?;
//! assert_eq!(prepared.keys.biz_key.as_str(), "order-2");
//! let batch = clinch.batch::<()>(None).await?;
//! let state: Batch = batch.look().await?;
//! assert!(!state.sealed);
//!
//! // Tasks of an application run where its engine runs.
//! struct OnTokio;
//! impl Spawner for OnTokio {
//!     fn spawn(&self, task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
//!         tokio::spawn(task);
//!     }
//! }
//! OnTokio.spawn(Box::pin(async {}));
//! # Ok(())
//! # }
//! ```

pub use clinch_core::ports::{
    Alert, AlertNote, Attempt, Clock, Executor, Journal, JournalRecords, Level, LoadShed, Meter,
    MetricLabels, PlainText, Probe, ProbeVerdict, Sealer, Severity, Spawner, Tags, Tracer, Work,
};
pub use clinch_core::ports::{
    Batch, CircuitState, DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink,
    DomainView, Domains, Expected, Filter, Inspect, KeyRange, LockManager, NewOperation, Operation,
    PAGE_BYTES_MAX, Page, Quota, Record, RecordList, RecordWrite, Records,
};
