//! How remote workers get attempts.
//!
//! A leased attempt counts as a call of its destination. Before it is handed out it takes a
//! bulkhead slot and a moment of the rate limit. It keeps the slot until it is reported on or its
//! lease has ended, and its outcome counts in the breaker. Nothing is begun for a destination
//! without room.
//!
//! This process remembers in memory what it has leased. A report that reaches another process frees
//! the slot here when the notice comes that the operation is settled, or when the lease has ended.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes};
use clinch_core::ports::{
    BeginRequest, Delivery, Dequeue, Gate, Level, Operation, Refused, Reschedule, Topic, Verdict,
    Write,
};
use clinch_core::{AttemptId, Error, ErrorKind, LeaseToken, Result, Retry, WorkerId};
use tokio::sync::oneshot;

use super::Workers;
use super::claims::soonest;
use super::held_leases::HeldLease;
use super::remote::{LeaseRequest, Leased};
use crate::handlers::Handler;
use crate::ports::Dispatch;
use crate::telemetry::tags_of;

/// Upper bound of the time that a remote worker waits for one answer.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The delay of a hint whose destination has no room and cannot say until when.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// The requested routes of one destination.
struct Group {
    gate: Arc<dyn Gate>,
    lease_max: Option<Duration>,
    routes: Arc<Routes>,
    topic: Topic,
}

/// The result of one try to take attempts.
#[derive(Default)]
struct Taken {
    leased: Vec<Leased>,
    /// When a destination that had no room has room again.
    again_in: Option<Duration>,
    /// A destination has no room until a lease ends.
    full: bool,
    /// The bus was read with a wait.
    waited: bool,
}

impl Workers {
    /// Begins attempts for a worker outside of this process.
    ///
    /// - Only operations of routes that are declared for remote workers, as far as their
    ///   destinations have room.
    /// - An attempt without a report is a lost attempt when its lease ends. An attempt that was
    ///   begun for a worker which disconnected is given back at once.
    pub(crate) async fn lease(self: &Arc<Self>, request: &LeaseRequest) -> Result<Vec<Leased>> {
        let groups = Arc::new(self.lease_groups(request)?);
        let until = self.ports.clock.monotonic() + request.wait.min(WAIT_MAX);
        let mut news = self.wakes.due_news.subscribe(&request.domain);
        loop {
            if let Some(news) = &mut news {
                news.borrow_and_update();
            }
            self.sweep_leases().await;
            let left = until.saturating_sub(self.ports.clock.monotonic());
            let taken = self.take_in_background(request, &groups, left).await?;
            let left = until.saturating_sub(self.ports.clock.monotonic());
            if !taken.leased.is_empty() || left.is_zero() || self.is_stopping() {
                return Ok(taken.leased);
            }
            if taken.waited {
                continue;
            }
            let nap = self.lease_nap(&groups, &taken).await?.min(left);
            let told = async {
                match &mut news {
                    // The sender lives as long as the workers: waiting cannot fail.
                    Some(news) => drop(news.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = told => {}
                () = self.sleep_unless_stopped(nap) => {}
            }
        }
    }

    /// Takes attempts in a task of its own: if the worker disconnects meanwhile, what was begun for
    /// it is given back and does not become a lost attempt.
    async fn take_in_background(
        self: &Arc<Self>,
        request: &LeaseRequest,
        groups: &Arc<Vec<Group>>,
        wait: Duration,
    ) -> Result<Taken> {
        let (mut reply, taken) = oneshot::channel();
        let (this, request, groups) = (self.clone(), request.clone(), groups.clone());
        let task = async move {
            let taken = match &this.ports.dispatch {
                Dispatch::Queue(_) => this.take_from_queue(&request, &groups).await,
                Dispatch::Hints(_) => {
                    let hung_up = reply.closed();
                    this.take_from_hints(&request, &groups, wait, hung_up).await
                }
            };
            if let Err(Ok(unheard)) = reply.send(taken) {
                for leased in unheard.leased {
                    // If this fails too, the lease ends.
                    let worker = request.worker.clone();
                    let _ = this.release(leased.attempt(), worker).await;
                }
            }
        };
        self.ports.spawner.spawn(Box::pin(task));
        let lost = |_| Error::new(ErrorKind::Unavailable, "the lease was not confirmed");
        taken.await.map_err(lost)?
    }
}

impl Workers {
    /// The routes that a worker asks for, by destination.
    fn lease_groups(&self, request: &LeaseRequest) -> Result<Vec<Group>> {
        let domain = &request.domain;
        let mut wanted: Vec<(EventTypes, &Handler)> = Vec::new();
        if request.event_types.is_empty() {
            let leased = self.handlers.of(domain).filter(|(_, one)| one.leased);
            wanted.extend(leased.map(|(types, handler)| (types.clone(), handler)));
        }
        for one in &request.event_types {
            let handler = self.handlers.find(domain, one);
            let Some(handler) = handler.filter(|handler| handler.leased) else {
                let message = format!(
                    "no route for remote workers is declared for the domain \"{domain}\" and the \
                     event type \"{one}\""
                );
                return Err(Error::new(ErrorKind::Invalid, message)
                    .with("code", "unknown_route")
                    .with("domain", domain)
                    .with("event_type", one)
                    .with("remote", true));
            };
            wanted.push((EventTypes::One(one.clone()), handler));
        }
        if wanted.is_empty() {
            let message =
                format!("no route for remote workers is declared for the domain \"{domain}\"");
            return Err(Error::new(ErrorKind::Invalid, message)
                .with("code", "unknown_route")
                .with("domain", domain)
                .with("remote", true));
        }
        let mut by_gate: BTreeMap<(&str, Option<Duration>), (&Handler, Routes)> = BTreeMap::new();
        for (types, handler) in &wanted {
            let place = (handler.gate.destination(), handler.lease_max);
            // A route for all event types does not cover a type with a route of its own.
            let (_, routes) = by_gate
                .entry(place)
                .or_insert_with(|| (handler, self.handlers.none_of(domain)));
            let rules = handler.rules.clone();
            *routes = std::mem::take(routes).with(domain.clone(), types.clone(), rules);
        }
        let group = |(handler, routes): (&Handler, Routes)| Group {
            gate: handler.gate.clone(),
            lease_max: handler.lease_max,
            routes: Arc::new(routes),
            topic: crate::handlers::topic(domain, &*handler.gate),
        };
        Ok(by_gate.into_values().map(group).collect())
    }

    /// Begins due rows, for each destination as many as it has room for.
    async fn take_from_queue(
        self: &Arc<Self>,
        request: &LeaseRequest,
        groups: &[Group],
    ) -> Result<Taken> {
        let mut taken = Taken::default();
        for group in groups {
            let room = self.lease_room(group, &mut taken);
            let max = room.min(request.max - taken.leased.len());
            if max == 0 {
                continue;
            }
            let tokens = self.lease_tokens(max);
            let dequeue = Dequeue {
                visibility: group.lease(request),
                worker: request.worker.clone(),
                attempts: tokens.keys().copied().collect(),
                ..self.dequeue(vec![group.topic.clone()], group.routes.clone(), 0)
            };
            let dequeue = Dequeue { max, ..dequeue };
            let deliveries = match self.dequeue_deliveries(&dequeue).await {
                Ok(deliveries) => deliveries,
                Err(error) if taken.leased.is_empty() => return Err(error),
                // The attempts begun so far are handed out.
                Err(_) => break,
            };
            let rows = deliveries.into_iter().filter_map(|one| one.begun);
            for row in rows.map(|row| *row) {
                let leased = self.hand_out(row, &tokens, group, request).await;
                taken.leased.extend(leased);
            }
        }
        Ok(taken)
    }

    /// Waits for hints of the destinations with room, and begins the operations that they name.
    async fn take_from_hints(
        self: &Arc<Self>,
        request: &LeaseRequest,
        groups: &[Group],
        wait: Duration,
        hung_up: impl Future<Output = ()>,
    ) -> Result<Taken> {
        let mut taken = Taken::default();
        let mut topics = vec![Topic::of(&request.domain)];
        let mut room = 0_usize;
        for group in groups {
            let calls = self.lease_room(group, &mut taken);
            if calls > 0 {
                topics.push(group.topic.clone());
                room = room.saturating_add(calls);
            }
        }
        if room == 0 {
            return Ok(taken);
        }
        topics.sort();
        topics.dedup();
        let mut hung_up = pin!(hung_up);
        let full = taken.full.then_some(FULL_PAUSE);
        let wait = soonest(taken.again_in, full).map_or(wait, |again_in| again_in.min(wait));
        let until = self.ports.clock.monotonic().saturating_add(wait);
        // The semaphore is fair: the worker that waited longest is next.
        let reader = tokio::select! {
            biased;
            reader = self.leases.readers.acquire() => reader.ok(),
            () = self.sleep(wait) => None,
            () = &mut hung_up => return Ok(taken),
        };
        let left = until.saturating_sub(self.ports.clock.monotonic());
        let is_crowded = self.leases.readers.available_permits() == 0;
        let wait = match reader {
            None => Duration::ZERO,
            Some(_) if is_crowded => left.min(self.config.fallback_poll),
            Some(_) => left,
        };
        let dequeue = Dequeue {
            wait,
            visibility: request.lease,
            worker: request.worker.clone(),
            ..self.dequeue(topics, Arc::default(), 0)
        };
        let max = request.max.min(room);
        let dequeue = Dequeue { max, ..dequeue };
        taken.waited = true;
        let deliveries = tokio::select! {
            biased;
            came = self.dequeue_deliveries(&dequeue) => came?,
            // Hints may be dropped: they come again.
            () = &mut hung_up => return Ok(taken),
            () = self.stop_told() => return Ok(taken),
        };
        drop(reader);
        for delivery in deliveries {
            let leased = self.lease_hint(&delivery, request, groups).await;
            taken.leased.extend(leased);
        }
        Ok(taken)
    }

    /// How many attempts the group's destination takes now.
    fn lease_room(&self, group: &Group, taken: &mut Taken) -> usize {
        let mut room = group.gate.room();
        if room.is_closed() && room.again_in.is_none() {
            // Set before the room is read again, so that a lease which ends after the reading is
            // not missed.
            self.wakes.set_leases_starved();
            room = group.gate.room();
        }
        if room.is_closed() {
            taken.again_in = soonest(taken.again_in, room.again_in);
            taken.full |= room.again_in.is_none();
        }
        room.calls
    }

    /// How long to wait: until a row is due or a destination has room, at most the fallback, which
    /// covers lost notices.
    async fn lease_nap(&self, groups: &[Group], taken: &Taken) -> Result<Duration> {
        let now = self.ports.clock.monotonic();
        let mut nap = self.config.fallback_poll;
        if taken.full {
            let first = self.leases.first_end();
            let ends_in = first.map(|end| end.saturating_sub(now));
            nap = nap.min(ends_in.unwrap_or(nap)).max(FULL_PAUSE);
        }
        nap = nap.min(taken.again_in.unwrap_or(nap));
        for group in groups {
            let due = self.ports.outbox.next_due(Some(&group.routes)).await?;
            // Due but not taken: another process has the row, or its destination has no room.
            let due = due.filter(|due| !due.is_zero());
            nap = nap.min(due.unwrap_or(nap));
        }
        Ok(nap)
    }

    /// Fresh lease tokens, by the attempt ids that are derived from them.
    fn lease_tokens(&self, count: usize) -> BTreeMap<AttemptId, LeaseToken> {
        let token = || LeaseToken::new(self.ports.ids.attempt_id());
        let tokens = std::iter::repeat_with(token).take(count);
        tokens.map(|token| (token.attempt_id(), token)).collect()
    }

    /// Takes the guards' permits for an attempt that has begun, and hands the attempt out. Without
    /// permits, the attempt is given back.
    async fn hand_out(
        self: &Arc<Self>,
        row: Operation,
        tokens: &BTreeMap<AttemptId, LeaseToken>,
        group: &Group,
        request: &LeaseRequest,
    ) -> Option<Leased> {
        let attempt_id = row.state.attempt_id?;
        let token = *tokens.get(&attempt_id)?;
        let admitted = match group.gate.admit().await {
            Ok(admitted) => admitted,
            Err(rejection) => {
                let retry = Retry::not_called(rejection.reason.as_str()).after(rejection.after);
                self.give_back(&row, attempt_id, request.worker.clone(), retry)
                    .await;
                return None;
            }
        };
        self.sleep(admitted.wait).await;
        let since = self.ports.clock.monotonic();
        let lease_until = row.state.lease_until;
        let Some(begun) = self.open(row, since).await else {
            admitted.report(Verdict::Ignored);
            return None;
        };
        let envelope = begun.into_envelope();
        if envelope.attempt == 1 {
            group.gate.first_call();
        }
        let held = HeldLease {
            fence: envelope.fence,
            since,
            until: since.saturating_add(group.lease(request)),
            admitted,
        };
        self.leases.put(envelope.op_id, held);
        self.log(Level::Info, "attempt started", &tags_of(&envelope));
        Some(Leased {
            envelope,
            token,
            lease_until,
        })
    }

    async fn give_back(&self, row: &Operation, id: AttemptId, worker: WorkerId, retry: Retry) {
        let attempt = Reschedule {
            op_id: row.op_id,
            fence: row.state.fence,
            worker,
            retry,
            attempt_id: Some(id),
        };
        let patience = self.config.settle_patience;
        let call = || self.commits.reschedule(attempt.clone());
        // If this fails, the lease ends.
        let _ = self.persist(patience, call).await;
    }

    /// Begins the operation that a hint names, if the worker asked for its event type and the
    /// destination has room.
    async fn lease_hint(
        self: &Arc<Self>,
        delivery: &Delivery,
        request: &LeaseRequest,
        groups: &[Group],
    ) -> Option<Leased> {
        let hint = &delivery.hint;
        let bus = self.ports.dispatch.bus();
        let mut ours = groups.iter();
        let ours = ours.find(|group| {
            let routes = &group.routes;
            routes.find(&hint.domain, &hint.event_type).is_some()
        });
        let room = ours.map(|group| group.gate.room());
        let away = match room {
            // The hint is for another worker.
            None => Some(self.config.sweep_grace),
            Some(room) if room.is_closed() => Some(room.again_in.unwrap_or(FULL_PAUSE)),
            Some(_) => None,
        };
        if let Some(away) = away {
            let _ = bus.nack(&[(delivery.receipt.clone(), away)]).await;
            return None;
        }
        let group = ours?;
        let tokens = self.lease_tokens(1);
        let begin = BeginRequest {
            op_id: hint.op_id,
            attempt_id: tokens.keys().copied().next()?,
            worker: request.worker.clone(),
            lease: group.lease(request),
        };
        // If the begin fails, the hint comes again after its visibility timeout.
        let begun = self.begin_as(begin, &group.routes).await.ok()?;
        // The row has decided. A hint that is not acked comes again and changes nothing.
        let _ = bus.ack(std::slice::from_ref(&delivery.receipt)).await;
        self.hand_out(begun.ok()?, &tokens, group, request).await
    }

    /// Begins the attempt. If the commit is ambiguous, the begin is this process's own if its
    /// attempt id reads back.
    async fn begin_as(
        &self,
        begin: BeginRequest,
        routes: &Arc<Routes>,
    ) -> Result<Result<Operation, Refused>> {
        let attempts = [begin.attempt_id];
        let missing = || Error::new(ErrorKind::Ambiguous, "the store gave no result");
        match self
            .ports
            .store
            .commit(&[Write::Begin(begin)], routes)
            .await
        {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                let lease = self.config.lease;
                let rows = self.persist(lease, || self.ports.inspect.begun(&attempts));
                let row = rows.await?.into_iter().next().flatten();
                row.map(Ok).ok_or(error)
            }
            other => other?.pop().ok_or_else(missing)?.begun(),
        }
    }
}

impl Group {
    fn lease(&self, request: &LeaseRequest) -> Duration {
        let max = self.lease_max.unwrap_or(request.lease);
        request.lease.min(max)
    }
}
