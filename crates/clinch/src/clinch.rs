//! The user's handle.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Gate as _, Known, Meter, NewOperation, Opened};
use clinch_core::{
    BatchId, Command, Domain, Error, ErrorKind, MESSAGE_BYTES_MAX, OpId, Result, Status, TimeBudget,
};
use clinch_engine::{Dispatch, Orchestrator, Pumped, Runtime};
use clinch_protect::{Destination, DestinationStatus, Opener, Sharing as _};
use serde::de::DeserializeOwned;

use crate::Route;
use crate::backend::{Counted, SqlAccept};
use crate::missing::{Runners, advised};
use crate::shared_guards::{Reopened, SharedGuards};
use crate::types::{Batch, Builder, Handle, Request};

/// Starts, watches and cancels operations, and runs their handlers. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use clinch::{Backend, Call, Clinch, Retry, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let greet: Route<String, String> = Route::new("demo", "greet").natural();
/// let clinch = Clinch::builder()
///     .backend(Backend::memory())
///     .handle(&greet, |call: Call<String>| async move {
///         Ok::<_, Retry>(format!("Hello {}", call.input))
///     })
///     .build()?;
/// // Retries, delayed work and recovery need the runners.
/// let running = tokio::spawn({ let clinch = clinch.clone(); async move { clinch.run().await } });
///
/// let later = clinch.submit(vec![greet.request("ada", "1", &"Ada".to_owned())]).await?;
/// let op_id = later.into_iter().next().expect("one")?;
/// let handle = clinch.wait(&greet, op_id, Duration::from_secs(10)).await?;
/// assert_eq!(handle.into_result().expect("settled").expect("completed").value, "Hello Ada");
///
/// clinch.stop();
/// running.await.expect("it ends when its attempts have");
/// # Ok(())
/// # }
/// ```
///
/// What an operator does, in a program that is its own server:
///
/// ```
/// use clinch::types::{Domain, Status};
/// use clinch::{Backend, Call, Clinch, Retry, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let charge: Route<u64, u64> = Route::new("payments", "charge").destination("psp");
/// let clinch = Clinch::builder()
///     .backend(Backend::memory())
///     .handle(&charge, |call: Call<u64>| async move { Ok::<_, Retry>(call.input) })
///     .build()?;
/// // Before the first operation: SQL functions of the database do not accept what is not sealed.
/// // `run` does it first.
/// clinch.refuse_plain_payloads().await?;
///
/// let payments = Domain::new("payments")?;
/// clinch.pause(&payments).await?;
/// let accepted = clinch.submit(vec![charge.request("order-1", "a", &5)]).await?;
/// assert_eq!(clinch.pump(10).await?.executed, 0, "the domain is paused");
/// for op_id in accepted {
///     let status = clinch.cancel(op_id?, "the order was withdrawn").await?;
///     assert_eq!(status, Status::Failed, "nothing was called");
/// }
/// clinch.resume(&payments).await?;
///
/// // The state of the provider's guards, with what other processes of the store know.
/// assert!(clinch.catch_up_destinations().await, "the processes share it");
/// assert_eq!(clinch.destinations()[0].name, "psp");
/// // The gauges, for the recorder of the `metrics` crate: call it when metrics are scraped.
/// clinch.measure().await?;
/// assert_eq!(clinch.runtime().attempts(), 0, "no call is running here");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Clinch {
    pub(crate) runtime: Runtime,
    pub(crate) orchestrator: Orchestrator,
    pub(crate) runners: Arc<Runners>,
    pub(crate) destinations: Arc<[Arc<Destination>]>,
    /// What the processes of the store share about destinations.
    pub(crate) shared_guards: Option<Arc<SharedGuards>>,
    /// Wakes work that waits for a destination.
    pub(crate) reopened: Arc<Reopened>,
    pub(crate) meter: Arc<dyn Meter>,
    pub(crate) domains: Arc<dyn clinch_core::ports::Domains>,
    pub(crate) dispatch: Dispatch,
    pub(crate) counted: Arc<[Arc<Counted>]>,
    /// The store's own way to accept operations, if payloads must be sealed.
    pub(crate) must_refuse: Option<Arc<dyn SqlAccept>>,
}

impl Clinch {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Accepts the request and waits up to `budget` for the operation's end. The work continues if
    /// the budget ends first or the caller goes away.
    ///
    /// - The same keys give the same operation, and the same waiting rules.
    /// - Another input under the same keys is refused: [`ErrorKind::Mismatch`], naming the
    ///   operation.
    /// - New work may be shed: [`ErrorKind::Shed`]. A replay never is.
    pub async fn start<O: DeserializeOwned>(
        &self,
        request: Request<O>,
        budget: Duration,
    ) -> Result<Handle<O>> {
        let command = request.into_command()?;
        let shed = self.orchestrator.shed(std::slice::from_ref(&command)).await;
        if let Some(error) = shed.into_iter().flatten().next() {
            return Err(error);
        }
        let budget = TimeBudget::new(budget);
        let started = self.orchestrator.start(command, budget).await;
        Ok(self.seen(Handle::of(started.map_err(advised)?)))
    }

    /// Accepts requests in one commit without waiting for their ends. An invalid request fails
    /// alone. Nothing is shed: this is how an application submits work of its own.
    pub async fn submit<O>(&self, requests: Vec<Request<O>>) -> Result<Vec<Result<OpId>>> {
        let (commands, places) = valid(requests);
        let known = self.orchestrator.submit(commands).await?;
        self.runners.leave(known.len());
        Ok(in_order(known, places))
    }

    /// The operation that a request would become, for a transaction of your own: a store's
    /// `accept_in` takes it together with [`Clinch::routes`], and your rows and the operation
    /// commit together or not at all. Nothing is accepted before that commit, and nothing is shed.
    pub fn prepare<O>(&self, request: Request<O>) -> Result<NewOperation> {
        let command = request.into_command()?;
        self.orchestrator.new_operation(command).map_err(advised)
    }

    /// The rules of every route, for a store's `accept_in`.
    pub fn routes(&self) -> &Routes {
        self.orchestrator.routes()
    }

    /// The operation as it is now.
    pub async fn look<I, O: DeserializeOwned>(
        &self,
        _route: &Route<I, O>,
        op_id: OpId,
    ) -> Result<Handle<O>> {
        let snapshot = self.orchestrator.status(op_id).await?;
        Ok(Handle::of_snapshot(snapshot))
    }

    /// Waits for the operation's end, at most `wait`, and returns the operation as it is then.
    pub async fn wait<I, O: DeserializeOwned>(
        &self,
        _route: &Route<I, O>,
        op_id: OpId,
        at_most: Duration,
    ) -> Result<Handle<O>> {
        let snapshot = self.orchestrator.await_settled(op_id, at_most).await?;
        Ok(self.seen(Handle::of_snapshot(snapshot)))
    }

    /// Whoever waited in vain is told if nothing runs here.
    fn seen<O>(&self, handle: Handle<O>) -> Handle<O> {
        if handle.settled().is_none() {
            self.runners.leave(1);
            self.runners.check();
        }
        handle
    }

    /// No further call is wanted. The status says what follows: FAILED, or still IN_PROGRESS
    /// because a call is running or may have been applied.
    pub async fn cancel(&self, op_id: OpId, reason: &str) -> Result<Status> {
        match self
            .orchestrator
            .cancel(op_id, &self.orchestrator.actor(), reason)
            .await?
        {
            Ok(changed) => Ok(changed.state.status),
            Err(refused) => {
                let kind = match refused {
                    clinch_core::ports::Refused::NotFound => ErrorKind::NotFound,
                    _ => ErrorKind::Conflict,
                };
                Err(Error::new(kind, refused.to_string()).with("op_id", op_id))
            }
        }
    }

    /// No attempt of this domain begins until [`Clinch::resume`]. Running attempts settle.
    pub async fn pause(&self, domain: &Domain) -> Result<()> {
        let by = self.orchestrator.actor();
        self.orchestrator.pause(domain, &by, "").await
    }

    /// Attempts of this domain begin again, at once.
    pub async fn resume(&self, domain: &Domain) -> Result<()> {
        self.orchestrator.resume(domain).await
    }

    /// Opens a batch; `on_complete` is accepted in the commit that completes it.
    pub async fn batch<O>(&self, on_complete: Option<Request<O>>) -> Result<Batch> {
        let command = on_complete.map(Request::into_command).transpose()?;
        let opened = self.orchestrator.open_batch(command).await;
        Ok(self.find_batch(opened.map_err(advised)?))
    }

    /// Opens a batch under an id of your own. Two calls with the same id open one batch.
    pub async fn batch_as<O>(
        &self,
        batch_id: BatchId,
        on_complete: Option<Request<O>>,
    ) -> Result<Batch> {
        let command = on_complete.map(Request::into_command).transpose()?;
        let opened = self.orchestrator.open_batch_as(batch_id, command).await;
        opened.map_err(advised)?;
        Ok(self.find_batch(batch_id))
    }

    /// A batch that was opened elsewhere.
    pub fn find_batch(&self, batch_id: BatchId) -> Batch {
        Batch {
            batch_id,
            orchestrator: self.orchestrator.clone(),
        }
    }

    /// Runs every runner until [`Clinch::stop`]. Returns when this process's attempts are done or
    /// the shutdown grace has passed.
    pub async fn run(&self) {
        self.runners.start();
        if let Err(error) = self.refuse_plain_payloads().await {
            tracing::error!(
                target: "clinch",
                %error,
                "clinch_accept in the database may still accept payloads that are not sealed"
            );
        }
        self.runtime.run().await;
    }

    /// With a sealer ([`Builder::sealer`]), on a store with an SQL function `clinch_accept`: from
    /// now on this function refuses, because the database holds no key. Otherwise does nothing.
    /// [`Clinch::run`] does it first; call it where the runners are started one by one.
    pub async fn refuse_plain_payloads(&self) -> Result<()> {
        match &self.must_refuse {
            Some(sql_accept) => sql_accept.refuse().await,
            None => Ok(()),
        }
    }

    /// Takes no more work, and lets [`Clinch::run`] return.
    pub fn stop(&self) {
        self.runtime.stop();
    }

    /// One step of every runner, with up to `max` attempts one after the other. For tests, and for
    /// programs with their own loop.
    pub async fn pump(&self, max: usize) -> Result<Pumped> {
        self.runners.start();
        self.runtime.pump(max).await
    }

    /// Every destination with its guards, as this process knows it.
    pub fn destinations(&self) -> Vec<DestinationStatus> {
        self.destinations.iter().map(|one| one.status()).collect()
    }

    /// Learns what other processes of the store know of the destinations, as before every call.
    /// False: the store keeps nothing of them, or does not answer, and each process knows only its
    /// own.
    pub async fn catch_up_destinations(&self) -> bool {
        match &self.shared_guards {
            Some(shared) => {
                shared.catch_up().await;
                shared.is_shared()
            }
            None => false,
        }
    }

    /// Stops the calls to a destination for `open_for`, or until [`Clinch::reset_destination`], in
    /// every process of the store: others learn of it before their next call, at the latest a
    /// second later.
    ///
    /// - [`Told::ThisProcess`]: the store keeps nothing of destinations, or does not answer. In
    ///   the second case the others are told as soon as it does.
    /// - `NotFound`: no route of this process names the destination.
    /// - `Unsupported`: the destination has no breaker.
    /// - `Invalid`: the reason is too long.
    pub async fn open_destination(
        &self,
        name: &str,
        open_for: Option<Duration>,
        opener: Opener,
    ) -> Result<Told> {
        let destination = self.find_destination(name)?;
        if opener.reason.len() > MESSAGE_BYTES_MAX {
            let message = format!("the reason must have at most {MESSAGE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let opened = Opened {
            since: Duration::ZERO,
            open_for,
            is_forced: true,
        };
        if !destination.open(opened, opener.clone()) {
            let message = "this destination has no breaker; pause its domains instead";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let Some(shared) = &self.shared_guards else {
            return Ok(Told::ThisProcess);
        };
        let is_said = shared.open(name, open_for, &opener).await;
        // What another process wrote a moment before was taken over first.
        if !destination.status().circuit.is_forced {
            destination.open(opened, opener);
        }
        if !is_said {
            shared.breaker_changed(name);
        }
        Ok(Told::of(is_said))
    }

    /// Calls a destination again: closes its breaker and ends a pause that its provider asked for,
    /// in every process of the store. Otherwise as [`Clinch::open_destination`].
    pub async fn reset_destination(&self, name: &str) -> Result<Told> {
        let destination = self.find_destination(name)?;
        let is_said = match &self.shared_guards {
            Some(shared) => shared.reset(name).await,
            None => false,
        };
        let has_ended = destination.reset().await;
        if let Some(shared) = self.shared_guards.as_ref().filter(|_| !is_said) {
            shared.breaker_changed(name);
            shared.paused(name);
        }
        (self.reopened)();
        Ok(Told::of(is_said && has_ended))
    }

    fn find_destination(&self, name: &str) -> Result<&Arc<Destination>> {
        let mut all = self.destinations.iter();
        let missing = || Error::new(ErrorKind::NotFound, "there is no such destination");
        all.find(|one| one.destination() == name)
            .ok_or_else(missing)
    }

    /// Alerts an operator, as the engine does when it needs help: logs, counts
    /// `orchestrator.alert.count`, and calls [`Builder::alert`]. The message must hold no payload
    /// and no key.
    pub async fn alert(&self, code: &'static str, message: &str, op_id: Option<OpId>) {
        self.orchestrator.alert(code, message, op_id).await;
    }

    /// The engine's own handle, for resolving held operations and everything untyped.
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// The engine's runners, one by one.
    pub fn runtime(&self) -> &Runtime {
        self.runners.start();
        &self.runtime
    }
}

/// Which processes an operator's word about a destination reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Every process of the store.
    EveryProcess,
    /// Only this one.
    ThisProcess,
}

impl Told {
    fn of(is_said: bool) -> Self {
        match is_said {
            true => Self::EveryProcess,
            false => Self::ThisProcess,
        }
    }
}

/// The valid commands, and for each invalid request its error.
pub(crate) fn valid<O>(requests: Vec<Request<O>>) -> (Vec<Command>, Vec<Option<Error>>) {
    let mut commands = Vec::with_capacity(requests.len());
    let mut errors = Vec::with_capacity(requests.len());
    for request in requests {
        match request.into_command() {
            Ok(command) => {
                commands.push(command);
                errors.push(None);
            }
            Err(error) => errors.push(Some(error)),
        }
    }
    (commands, errors)
}

/// Results in the order of the requests.
pub(crate) fn in_order(known: Vec<Result<Known>>, errors: Vec<Option<Error>>) -> Vec<Result<OpId>> {
    let mut known = known.into_iter();
    let missing = || Error::new(ErrorKind::Internal, "the engine returned no result");
    let result = |error: Option<Error>| match error {
        Some(error) => Err(error),
        None => Ok(known.next().ok_or_else(missing)?.map_err(advised)?.op_id),
    };
    errors.into_iter().map(result).collect()
}
