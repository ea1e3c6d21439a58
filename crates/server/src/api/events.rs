//! Server-sent events: operations that changed, and counters.
//!
//! The engine of this process reports its own changes; the store's notices name the operations that
//! other processes settled. One reader of the notices serves every listener and runs only while
//! there is a listener. A listener that is too slow misses events and gets `lagged`: it must read
//! the operations again. A listener that stops reading is disconnected by its connection.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use clinch_core::OpId;
use clinch_core::ports::{Notice, Notices};
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use super::app::{Answer, App, Shared};
use super::caller::Caller;
use super::changes::Changes;
use super::document::OperationDocument;
use super::domains::DomainDocument;

/// Events that are kept for a slow listener.
const KEPT_MAX: usize = 1_024;
/// KiB of long results among these events. An operation whose result does not fit is sent as
/// `lagged`.
const KEPT_KIB_MAX: usize = 8 * 1_024;
/// Results up to this length are not counted.
const SHORT_BYTES_MAX: usize = 4 * 1_024;
/// Operations that are read at once: each row comes with its payload and its result.
const ROWS: usize = 16;
/// The longest wait for notices: the reader ends soon after its last listener.
const WAIT: Duration = Duration::from_secs(5);
/// The shortest interval between two `counters` events.
const COUNTERS_EVERY: Duration = Duration::from_millis(500);

/// Operations whose last sent version is remembered.
const TOLD_MAX: usize = 4_096;

/// One event for all listeners.
#[derive(Debug, Clone)]
enum HubEvent {
    Operation(Arc<SharedOperation>),
    Counters(Arc<Vec<DomainDocument>>),
    Lagged,
}

/// An operation until every listener has received it, and its share of `KEPT_KIB_MAX`.
#[derive(Debug)]
struct SharedOperation {
    document: OperationDocument,
    _room: Option<OwnedSemaphorePermit>,
}

impl HubEvent {
    /// The event for this caller; `None`: the caller may not see it.
    fn event(&self, caller: &Caller) -> Option<Event> {
        let event = match self {
            Self::Operation(kept) if !kept.document.is_for(caller) => return None,
            Self::Operation(kept) => {
                let event = Event::default().event("operation");
                event.json_data(&kept.document)
            }
            Self::Counters(domains) => {
                let domains = domains.iter().filter(|domain| domain.is_for(caller));
                let data = json!({ "domains": domains.collect::<Vec<_>>() });
                Event::default().event("counters").json_data(data)
            }
            Self::Lagged => Event::default().event("lagged").json_data(json!({})),
        };
        event.ok()
    }
}

pub(crate) struct Hub {
    notices: Arc<dyn Notices>,
    changes: Changes,
    news: broadcast::Sender<HubEvent>,
    room: Arc<Semaphore>,
    is_read: AtomicBool,
}

impl Hub {
    pub(crate) fn new(notices: Arc<dyn Notices>) -> Self {
        Self {
            notices,
            changes: Changes::default(),
            news: broadcast::Sender::new(KEPT_MAX),
            room: Arc::new(Semaphore::new(KEPT_KIB_MAX)),
            is_read: AtomicBool::new(false),
        }
    }

    /// The event of a changed operation; `lagged` if its result does not fit.
    fn operation(&self, document: OperationDocument) -> HubEvent {
        let bytes = document.result_bytes();
        let kib = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
        let taken =
            (bytes > SHORT_BYTES_MAX).then(|| self.room.clone().try_acquire_many_owned(kib));
        match taken.transpose() {
            Ok(room) => HubEvent::Operation(Arc::new(SharedOperation {
                document,
                _room: room,
            })),
            Err(_) => HubEvent::Lagged,
        }
    }

    /// Collects the changes that the engine of this process makes.
    pub(crate) fn changes(&self) -> Changes {
        self.changes.clone()
    }
}

/// The version of each operation that was sent last: the same version is not sent twice.
#[derive(Default)]
struct SentVersions(BTreeMap<OpId, u64>);

impl SentVersions {
    fn is_new(&mut self, op_id: OpId, version: u64) -> bool {
        if self.0.len() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.insert(op_id, version) != Some(version)
    }
}

/// Follow changes as they happen.
///
/// Server-sent events: `operation` with its document, `counters` with every domain, and `lagged` if
/// some were missed. An event is a hint; the operation is the truth.
#[utoipa::path(get, path = "/v1/events", tag = "operations", operation_id = "stream_events",
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Events `operation` (an operation changed), `counters` (all domains) and `lagged` (the listener missed events)"),
    ))]
pub(crate) async fn events(State(app): State<Shared>, caller: Caller) -> Answer {
    let receiver = app.hub.news.subscribe();
    // Before the first event: after it a listener may rely on every later change being sent.
    app.hub.changes.listen(true);
    let first = app.domain_documents().await?;
    read_for_listeners(&app);
    let first = HubEvent::Counters(Arc::new(first));
    let first = stream::iter(first.event(&caller).map(Ok::<_, Infallible>));
    let stream = first
        .chain(listen(receiver, caller))
        .take_until(app.stop.clone().cancelled_owned());
    Ok(Sse::new(stream)
        .keep_alive(KeepAlive::default())
        .into_response())
}

/// An event without data for every change that the caller may see: a page reads itself again.
pub(crate) async fn pings(State(app): State<Shared>, caller: Caller) -> Answer {
    let receiver = app.hub.news.subscribe();
    app.hub.changes.listen(true);
    read_for_listeners(&app);
    let changes = listen(receiver, caller).map(|_| Ok::<_, Infallible>(changed()));
    let first = stream::iter([Ok(changed())]);
    let stream = first
        .chain(changes)
        .take_until(app.stop.clone().cancelled_owned());
    Ok(Sse::new(stream)
        .keep_alive(KeepAlive::default())
        .into_response())
}

/// Browsers pass over an event without data.
fn changed() -> Event {
    Event::default().event("change").data("1")
}

fn listen(
    receiver: broadcast::Receiver<HubEvent>,
    caller: Caller,
) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((receiver, caller), |(mut receiver, caller)| async move {
        loop {
            let news = match receiver.recv().await {
                Ok(news) => news,
                Err(broadcast::error::RecvError::Lagged(_)) => HubEvent::Lagged,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            if let Some(event) = news.event(&caller) {
                return Some((Ok(event), (receiver, caller)));
            }
        }
    })
}

/// Starts the reader unless it is running.
fn read_for_listeners(app: &Shared) {
    if !app.hub.is_read.swap(true, Ordering::SeqCst) {
        tokio::spawn(read(app.clone()));
    }
}

async fn read(app: Shared) {
    let hub = &app.hub;
    let mut seen = 0;
    let mut told = SentVersions::default();
    hub.changes.listen(true);
    let mut told_at: Option<Duration> = None;
    while hub.news.receiver_count() > 0 && !app.stop.is_cancelled() {
        // Changes until the next `counters` are sent together with it.
        let rest = told_at
            .map(|at| COUNTERS_EVERY.saturating_sub(app.clock.monotonic().saturating_sub(at)));
        let news = async {
            tokio::select! {
                news = hub.notices.news(seen, WAIT) => news,
                () = hub.changes.any() => Ok((Vec::new(), seen)),
            }
        };
        let Some(news) = app.unless_stopped(news).await else {
            break;
        };
        let Ok((notices, last)) = news else {
            app.unless_stopped(app.clock.sleep(COUNTERS_EVERY)).await;
            continue;
        };
        seen = last;
        let changed = hub.changes.take();
        if notices.is_empty() && changed == Some(Vec::new()) {
            continue;
        }
        app.tell(&notices, changed, &mut told).await;
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            app.unless_stopped(app.clock.sleep(rest)).await;
        }
        if let Ok(domains) = app.domain_documents().await {
            let _ = hub.news.send(HubEvent::Counters(Arc::new(domains)));
        }
        told_at = Some(app.clock.monotonic());
    }
    hub.changes.listen(false);
    hub.is_read.store(false, Ordering::SeqCst);
    // A listener that subscribed in between saw the flag still set and started no reader.
    if hub.news.receiver_count() > 0 && !app.stop.is_cancelled() {
        read_for_listeners(&app);
    }
}

impl App {
    async fn tell(&self, notices: &[Notice], changed: Option<Vec<OpId>>, told: &mut SentVersions) {
        let settled = notices.iter().filter_map(|notice| match notice {
            Notice::Settled(op_id) => Some(*op_id),
            _ => None,
        });
        if notices.contains(&Notice::Lagged) || changed.is_none() {
            let _ = self.hub.news.send(HubEvent::Lagged);
        }
        let changed: BTreeSet<OpId> = settled.chain(changed.into_iter().flatten()).collect();
        let changed: Vec<OpId> = changed.into_iter().collect();
        for changed in changed.chunks(ROWS) {
            let Ok(rows) = self.inspect.get(changed).await else {
                return;
            };
            let rows = rows.into_iter().flatten();
            let rows = rows.filter(|row| told.is_new(row.op_id, row.state.version));
            let snapshots = rows
                .filter_map(|row| self.orchestrator().snapshot(row).ok())
                .collect();
            for document in self.documents(snapshots).await {
                // The last listener may have gone.
                let _ = self.hub.news.send(self.hub.operation(document));
            }
        }
    }
}
