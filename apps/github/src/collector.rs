//! The collector's handle.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use clinch::policy::{BulkheadConfig, CircuitConfig, DestinationConfig};
use clinch::ports::{Clock, DocumentSink, Inspect, Quota, Records};
use clinch::types::{Builder, ErrorKind};
use clinch::{Call, Clinch, Error, Refusal, Result};

use crate::app::Installations;
use crate::credentials::Due;
use crate::health::Health;
use crate::model::{PageJob, Space};
use crate::records::CollectorRecords;
use crate::routes::{
    DESTINATION, DOMAIN, Ended, PAGE_TIMEOUT, STEPS, close_route, collect_route, finish_route,
    page_route, plan_route, statistics_route,
};
use crate::streams::{JobKind, with_needed};
use crate::switch::Outage;
use crate::tally::Tally;
use crate::tokens::TokenPool;
use crate::{ANSWER_BYTES_MAX, Settings, Transport, metrics, plan};

/// First pause before recovery and schedules that failed at the start are tried again; it doubles.
const CATCH_UP_PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause.
const CATCH_UP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often the active runs are looked at afterwards: a step may have been given up.
const LOOK_EVERY: Duration = Duration::from_secs(5 * 60);

/// Collects the data that GitHub has about users. Cheap to clone.
///
/// [`Collector::handle`] declares its operations on a builder; [`Collector::attach`] connects it to
/// the engine that was built.
#[derive(Clone)]
pub struct Collector {
    pub(crate) inner: Arc<Inner>,
}

/// The parts of a collector.
pub struct Parts {
    /// Its settings.
    pub settings: Settings,
    /// Runs, cursors and other records; on the same store as the operations.
    pub records: Arc<dyn Records>,
    /// The sink for documents.
    pub documents: Arc<dyn DocumentSink>,
    /// The budgets of accounts; all nodes share them.
    pub quota: Arc<dyn Quota>,
    /// Sends requests to the API.
    pub transport: Arc<dyn Transport>,
    /// Reads operations.
    pub inspect: Arc<dyn Inspect>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) records: CollectorRecords,
    documents: Arc<dyn DocumentSink>,
    /// The sink for the documents of shadow runs, if they have one of their own.
    shadow_documents: Option<Arc<dyn DocumentSink>>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) tokens: TokenPool,
    /// Installations of the app.
    pub(crate) installations: Installations,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) clock: Arc<dyn Clock>,
    clinch: OnceLock<Clinch>,
    /// How the latest resources fare.
    pub(crate) health: Health,
    /// When the runs were last read for the gauges.
    pub(crate) runs_read_at: Mutex<Option<Duration>>,
    /// What the jobs of active runs did so far in this process.
    pub(crate) tally: Tally,
    /// Since when the sink of the shadow refuses documents.
    pub(crate) outage: Outage,
    /// What the start, or other tokens and keys, have made due.
    pub(crate) due: Due,
}

impl Inner {
    /// Where the documents of a run go.
    pub(crate) fn sink(&self, space: Space) -> &Arc<dyn DocumentSink> {
        match space {
            Space::Main => &self.documents,
            Space::Shadow => self.shadow_documents.as_ref().unwrap_or(&self.documents),
        }
    }

    pub(crate) fn clinch(&self) -> Result<&Clinch> {
        let missing = || {
            Error::new(
                ErrorKind::Unavailable,
                "the collector is not attached to an engine yet",
            )
        };
        self.clinch.get().ok_or_else(missing)
    }
}

impl Collector {
    /// Creates a collector; nothing runs yet.
    pub fn new(parts: Parts) -> Self {
        Self::with_shadow_sink(parts, None)
    }

    /// The same; the documents of shadow runs go to a sink of their own.
    pub fn with_shadow_sink(mut parts: Parts, shadow: Option<Arc<dyn DocumentSink>>) -> Self {
        parts.settings.streams = with_needed(&parts.settings.streams);
        let records = CollectorRecords::new(parts.records);
        let tokens = TokenPool::new(
            parts.settings.tokens.clone(),
            parts.quota,
            parts.transport.clone(),
            parts.settings.api_url.clone(),
            records.clone(),
            parts.clock.clone(),
        );
        let tokens = tokens.paced(parts.settings.pace());
        Self {
            inner: Arc::new(Inner {
                settings: parts.settings,
                records,
                documents: parts.documents,
                shadow_documents: shadow,
                transport: parts.transport,
                tokens,
                installations: Installations::default(),
                inspect: parts.inspect,
                clock: parts.clock,
                clinch: OnceLock::new(),
                health: Health::default(),
                runs_read_at: Mutex::default(),
                tally: Tally::default(),
                outage: Outage::default(),
                due: Due::default(),
            }),
        }
    }

    /// Declares every kind of operation, with handlers that run them in this process.
    #[must_use]
    pub fn handle(&self, builder: Builder) -> Builder {
        let mut builder = self.guarded(builder).checkpoint_max(ANSWER_BYTES_MAX);
        for kind in JobKind::all() {
            let inner = self.inner.clone();
            let job = move |call: Call<PageJob>| inner.clone().attempt(kind, call);
            builder = builder.handle(&page_route(kind), job);
        }
        let inner = self.inner.clone();
        builder = builder.handle(&plan_route(), move |call| {
            let inner = inner.clone();
            async move { inner.plan(call).await }
        });
        let inner = self.inner.clone();
        builder = builder.handle(&finish_route(), move |call| {
            let inner = inner.clone();
            async move { inner.finish(call).await }
        });
        let inner = self.inner.clone();
        builder = builder.handle(&statistics_route(), move |call| {
            let inner = inner.clone();
            async move { inner.statistics(call).await }
        });
        let inner = self.inner.clone();
        builder = builder.handle(&close_route(), move |call| closed(inner.clone(), call));
        let inner = self.inner.clone();
        builder.handle(&collect_route(), move |call| {
            let inner = inner.clone();
            async move { inner.collect(call).await }
        })
    }

    /// Declares every kind of operation for a process that only accepts them.
    #[must_use]
    pub fn declare(&self, mut builder: Builder) -> Builder {
        for kind in JobKind::all() {
            builder = builder.remote(&page_route(kind));
        }
        builder
            .remote(&plan_route())
            .remote(&finish_route())
            .remote(&statistics_route())
            .remote(&close_route())
            .remote(&collect_route())
    }

    fn guarded(&self, builder: Builder) -> Builder {
        let concurrency = self.inner.settings.concurrency.max(1);
        let guards = DestinationConfig {
            // A slow API is not a failing one. Besides, the time of an attempt is also that of the
            // budgets and of the sink. What takes too long is cut off, and fails.
            breaker: Some(CircuitConfig {
                slow: PAGE_TIMEOUT,
                ..CircuitConfig::default()
            }),
            concurrency: Some(BulkheadConfig {
                max_concurrent: u32::try_from(concurrency).unwrap_or(u32::MAX),
                ..BulkheadConfig::default()
            }),
            ..DestinationConfig::default()
        };
        // What one user's run does to our own store says nothing of the steps of others, and slow
        // steps are no failure. A store that is away costs no attempt.
        let of_step = DestinationConfig {
            breaker: None,
            ..DestinationConfig::default()
        };
        STEPS
            .iter()
            .map(|step| format!("{DOMAIN}/{step}"))
            .fold(builder.destination(DESTINATION, guards), |builder, step| {
                builder.destination(step, of_step.clone())
            })
    }

    /// Connects the collector to the engine. Then it resumes runs that an earlier process left
    /// unplanned and submits the scheduled runs. If the store refuses that now, it is tried again
    /// in the background: the process starts all the same. Later it looks at the active runs from
    /// time to time.
    pub async fn attach(&self, clinch: &Clinch) {
        // The first engine stays; a second one is ignored.
        let _ = self.inner.clinch.set(clinch.clone());
        metrics::begin_at_zero();
        let is_caught_up = self.catch_up().await.is_ok();
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move { look_after(&inner, is_caught_up).await });
    }

    async fn catch_up(&self) -> Result<()> {
        let done = self.inner.do_due().await;
        let noted = self.recover().await.and(self.note_schedule().await);
        let noted = noted.and(done);
        if let Err(error) = &noted {
            tracing::warn!(target: "clinch::github", %error, "cannot resume unplanned runs or submit scheduled runs; will retry");
        }
        noted
    }

    /// Reads the server's tokens and keys again, for example because a file with a token was
    /// replaced. True: they have changed, and jobs that wait for a token go on. An error says what
    /// could not be read, or that tokens of users are still sealed with an earlier key.
    pub async fn reload_tokens(&self) -> Result<bool> {
        self.inner.reload_tokens().await
    }

    /// Submits the next run of every schedule. Its keys make it one operation, however often it is
    /// submitted.
    async fn note_schedule(&self) -> Result<()> {
        let now = self.inner.clock.now();
        let schedule = &self.inner.settings.schedule;
        let next = schedule.iter().filter_map(|one| plan::scheduled(one, now));
        for accepted in self.inner.clinch()?.submit(next.collect()).await? {
            match accepted {
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::error!(target: "clinch::github", %error, "scheduled run refused");
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// Closes a run, and judges it if its documents are live after a switch.
async fn closed(inner: Arc<Inner>, call: Call<Ended>) -> Result<(), Refusal> {
    let run_id = call.input.run_id.clone();
    inner.close(call).await?;
    let judged = Collector { inner }.judge(&run_id).await;
    judged.map_err(plan::retry_own_store)
}

/// Resumes runs and submits scheduled ones until that has succeeded once, and looks at the active
/// runs from time to time, for as long as the collector is there.
async fn look_after(inner: &Weak<Inner>, mut is_caught_up: bool) {
    let mut pause = CATCH_UP_PAUSE;
    loop {
        let Some(clock) = inner.upgrade().map(|inner| inner.clock.clone()) else {
            return;
        };
        clock
            .sleep(match is_caught_up {
                true => LOOK_EVERY,
                false => pause,
            })
            .await;
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let collector = Collector { inner };
        if !is_caught_up {
            is_caught_up = collector.catch_up().await.is_ok();
            pause = (pause * 2).min(CATCH_UP_PAUSE_MAX);
        } else if let Err(error) = collector
            .recover()
            .await
            .and(collector.inner.do_due().await)
        {
            tracing::warn!(target: "clinch::github", %error, "cannot look after active runs or waiting jobs; will try again");
        }
    }
}
