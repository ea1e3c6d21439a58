//! Why an operation is not running now, by the table at the end of the protocol page.
//!
//! The row does not hold every reason: the rest comes from the domain, the lane, and the
//! destination as this process sees it. A reason that cannot be read now is left out.

use std::collections::BTreeMap;

use clinch_core::ports::{Filter, Operation, Reason};
use clinch_core::protocol::Phase;
use clinch_core::{Domain, LaneKey, Status, Timestamp};
use clinch_protect::DestinationStatus;

use super::app::App;
use super::document::HoldDocument;
use super::time;

/// Operations of one lane that are read; in a longer lane an operation still waits behind the
/// first.
const LANE_MAX: usize = 200;

/// The domains, lanes and destinations of operations, each read once a request.
pub(super) struct Holds<'a> {
    app: &'a App,
    now: Option<Timestamp>,
    paused: Option<Vec<Domain>>,
    heads: BTreeMap<LaneKey, Option<u64>>,
    destinations: Option<Vec<DestinationStatus>>,
}

fn hold(reason: &'static str, until: Option<Timestamp>) -> Option<HoldDocument> {
    Some(HoldDocument {
        reason,
        until: until.map(time::write),
    })
}

/// Why one operation is not running now.
pub(crate) async fn hold_of(app: &App, operation: &Operation) -> Option<HoldDocument> {
    Holds::new(app).of(operation).await
}

impl<'a> Holds<'a> {
    pub(super) fn new(app: &'a App) -> Self {
        Self {
            app,
            now: None,
            paused: None,
            heads: BTreeMap::new(),
            destinations: None,
        }
    }

    pub(super) async fn of(&mut self, operation: &Operation) -> Option<HoldDocument> {
        let state = &operation.state;
        if state.phase == Some(Phase::Held) {
            let probe_at = state.hold.as_ref().and_then(|hold| hold.probe_at);
            return hold("effect_unknown", probe_at);
        }
        if !state.awaits_begin() {
            return None;
        }
        if self.is_paused(&operation.keys.domain).await {
            return hold("paused", None);
        }
        if self.is_behind(operation).await {
            return hold("key_order", None);
        }
        let now = self.now().await?;
        let due = state.next_attempt_at.filter(|at| *at > now);
        let closed = self.closed(operation, now);
        match (due, closed) {
            // The reason that lasts longer is the one that the operation waits for.
            (Some(due), Some((reason, until))) if until.is_some_and(|until| until >= due) => {
                hold(reason, until)
            }
            (Some(due), _) if state.status == Status::Pending => hold("delayed", Some(due)),
            (Some(due), _) => hold("backoff", Some(due)),
            (None, Some((reason, until))) => hold(reason, until),
            (None, None) => self.without_executor(operation),
        }
    }

    /// This process makes no calls of the route, and no remote worker has leased the operation.
    fn without_executor(&self, operation: &Operation) -> Option<HoldDocument> {
        let keys = &operation.keys;
        let route = self.app.routes.find(&keys.domain, &keys.event_type);
        let executed = route.is_some_and(|route| route.destination.is_some());
        if executed {
            None
        } else {
            hold("no_executor", None)
        }
    }

    /// Why the destination takes no call, and until when.
    fn closed(
        &mut self,
        operation: &Operation,
        now: Timestamp,
    ) -> Option<(&'static str, Option<Timestamp>)> {
        let keys = &operation.keys;
        let route = self.app.routes.find(&keys.domain, &keys.event_type)?;
        let name = route.destination.as_ref()?;
        let clinch = &self.app.clinch;
        let all = self
            .destinations
            .get_or_insert_with(|| clinch.destinations());
        let status = all.iter().find(|status| status.name == *name)?;
        if !status.room.is_closed() {
            return None;
        }
        let until = status.room.again_in.map(|again| now + again);
        match status.room.reason? {
            Reason::BreakerOpen => Some(("breaker_open", until)),
            Reason::RateLimited | Reason::Paused => Some(("rate_limited", until)),
            Reason::BulkheadFull if operation.state.status == Status::Pending => None,
            Reason::BulkheadFull => Some(("bulkhead_full", until)),
        }
    }

    async fn now(&mut self) -> Option<Timestamp> {
        if self.now.is_none() {
            self.now = self.app.inspect.now().await.ok();
        }
        self.now
    }

    async fn is_paused(&mut self, domain: &Domain) -> bool {
        if self.paused.is_none() {
            let views = self.app.domains.domains().await.unwrap_or_default();
            let paused = views.into_iter().filter(|view| view.paused);
            self.paused = Some(paused.map(|view| view.domain).collect());
        }
        self.paused
            .as_ref()
            .is_some_and(|paused| paused.contains(domain))
    }

    /// Whether an earlier operation of the same lane is open.
    async fn is_behind(&mut self, operation: &Operation) -> bool {
        let Some(lane) = operation.lane else {
            return false;
        };
        if !self.heads.contains_key(&lane) {
            let head = self.head(operation).await;
            self.heads.insert(lane, head);
        }
        let head = self.heads.get(&lane).copied().flatten();
        head.is_some_and(|head| head < operation.seq)
    }

    /// The smallest open seq of the lane, among the operations that are read.
    async fn head(&self, operation: &Operation) -> Option<u64> {
        let mut head = None;
        // The first operation of a lane is in progress, except for a moment between two operations.
        for status in [Status::InProgress, Status::Pending] {
            let filter = Filter {
                domains: vec![operation.keys.domain.clone()],
                biz_key: Some(operation.keys.biz_key.clone()),
                status: Some(status),
                ..Filter::default()
            };
            let (mut looked_at, mut cursor) = (0, None);
            loop {
                let left = LANE_MAX.saturating_sub(looked_at);
                let page = self.app.inspect.list(&filter, cursor.as_deref(), left);
                let page = page.await.ok()?;
                looked_at += page.items.len();
                let rows = page.items.iter();
                let same = rows.filter(|other| other.lane == operation.lane);
                head = head.into_iter().chain(same.map(|other| other.seq)).min();
                match page.next_cursor {
                    Some(next) if looked_at < LANE_MAX => cursor = Some(next),
                    _ => break,
                }
            }
        }
        head
    }
}
