//! Every call that is measured.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Bus, Claimed, Dequeue, Extension, Filter, LetterAction, LetterChange, LetterFilter,
    LetterOrder, LetterState, NewOperation, OfRoute, Operation, PAGE_MAX, Page, Prune, Pruned,
    Reschedule, Restriction, SEARCH_MAX, Scan, Silence, Topic, Write,
};
use clinch_core::protocol::Phase;
use clinch_core::{BizKey, Domain, EventType, OpId, OpIdPrefix, Retry, Status, Timestamp};

use super::{Cost, Examined, Templates, backlog};
use crate::StorePorts;
use crate::calls::Calls;
use crate::case::{Failure, Verdict};
use crate::fixtures::{self, NATURAL, REAPED, Sequence, UNSAFE};

/// Rows that a call asks for.
const ASKED: usize = 20;
/// A search looks at [`SEARCH_MAX`] rows, in two tables and with their requests.
const SEARCH: usize = 4 * SEARCH_MAX;
/// Rows with a running attempt in the backlog, which are found by their state. In production they
/// are as many as the workers have room for.
const LIVE: usize = 40_000;
const DAY: Duration = Duration::from_secs(86_400);

/// Retention periods of the prune. By the fill of the adapters, a hundred
/// operations and keys are older.
const PRUNE: Prune = Prune {
    completed: Duration::from_secs(10 * 86_400),
    failed: Duration::from_secs(30 * 86_400),
    keys: Duration::from_secs(40 * 86_400),
    max: ASKED,
    reckoned: None,
    jump_max: Duration::from_secs(100 * 365 * 86_400),
};

/// Makes every call and returns what each cost.
///
/// `middle` is a cursor in the middle of the list of all operations.
pub async fn measure(
    ports: &StorePorts,
    queue: Option<&Arc<dyn Bus>>,
    examined: &dyn Examined,
    templates: &Templates,
    middle: &str,
) -> Result<Vec<Cost>, Failure> {
    let ids = Sequence::default();
    for _ in 0..1_000_000 {
        ids.number();
    }
    let mut measuring = Measuring {
        ports,
        examined,
        routes: fixtures::routes()?,
        ids,
        costs: Vec::new(),
    };
    measuring.hot_path().await?;
    if let Some(queue) = queue {
        measuring.queue(queue.as_ref()).await?;
    }
    measuring.outbox().await?;
    measuring.recovery().await?;
    measuring.metrics().await?;
    measuring.reads(templates).await?;
    measuring.lists(templates, middle).await?;
    measuring.pruning().await?;
    Ok(measuring.costs)
}

struct Measuring<'m> {
    ports: &'m StorePorts,
    examined: &'m dyn Examined,
    routes: Routes,
    ids: Sequence,
    costs: Vec<Cost>,
}

impl Measuring<'_> {
    /// Makes a call and keeps its cost; `rows` counts what it returned.
    async fn cost<T, E>(
        &mut self,
        call: &'static str,
        work: impl Future<Output = Result<T, E>>,
        rows: impl FnOnce(&T) -> usize,
    ) -> Verdict<T>
    where
        Failure: From<E>,
    {
        self.search(call, 0, work, rows).await
    }

    /// The same of a search that examines at most `search` rows.
    async fn search<T, E>(
        &mut self,
        call: &'static str,
        search: usize,
        work: impl Future<Output = Result<T, E>>,
        rows: impl FnOnce(&T) -> usize,
    ) -> Verdict<T>
    where
        Failure: From<E>,
    {
        let before = self.examined.examined().await;
        let answer = work.await?;
        let after = self.examined.examined().await;
        self.costs.push(Cost {
            call,
            returned: rows(&answer) as u64,
            examined: after.saturating_sub(before),
            search: search as u64,
        });
        Ok(answer)
    }

    async fn hot_path(&mut self) -> Verdict {
        let (store, routes) = (self.ports.store.clone(), self.routes.clone());
        let new = backlog::fresh(&self.ids, NATURAL, ASKED)?;
        let accept = store.accept(&new, &routes);
        self.cost("accept", accept, Vec::len).await?;
        let again = store.accept(&new, &routes);
        self.cost("accept, known keys", again, Vec::len).await?;
        let begin = |one: &NewOperation| self.ids.begin(one.op_id, 0);
        let begins: Vec<_> = new.iter().map(begin).collect::<Verdict<_>>()?;
        let begun = store.begin(&begins, &routes);
        let begun = self.cost("begin", begun, Vec::len).await?;
        let begun: Vec<Operation> = begun.into_iter().collect::<Result<_, _>>()?;
        let attempts: Vec<_> = begins.iter().map(|begin| begin.attempt_id).collect();
        let extension = |row: &Operation| Extension {
            op_id: row.op_id,
            fence: row.state.fence,
            lease: fixtures::LEASE,
            attempt_id: None,
        };
        let extensions: Vec<_> = begun.iter().map(extension).collect();
        self.cost("extend", store.extend(&extensions), Vec::len)
            .await?;
        let inspect = self.ports.inspect.clone();
        let live = inspect.begun(&attempts);
        self.search("begun", LIVE, live, Vec::len).await?;
        let answer = |row: &Operation| {
            let fence = Some(row.state.fence);
            fixtures::ok_answer(row.op_id, fence, "txn")
        };
        let (settled, rest) = begun.split_at(ASKED / 2);
        let answers: Vec<_> = settled.iter().map(answer).collect::<Verdict<_>>()?;
        let settle = store.settle(&answers, &routes);
        self.cost("settle", settle, Vec::len).await?;
        let (recorded, rest) = rest.split_at(ASKED / 4);
        let answers: Vec<_> = recorded.iter().map(answer).collect::<Verdict<_>>()?;
        let write_ahead = store.write_ahead(&answers, &routes);
        self.cost("write ahead", write_ahead, Vec::len).await?;
        let recorded: Vec<OpId> = recorded.iter().map(|row| row.op_id).collect();
        let finalize = store.finalize(&recorded, &routes);
        self.cost("finalize", finalize, Vec::len).await?;
        let mut ended = Vec::new();
        for row in rest {
            ended.push(Reschedule {
                op_id: row.op_id,
                fence: row.state.fence,
                worker: fixtures::worker(0)?,
                retry: Retry::not_applied("busy"),
                attempt_id: None,
            });
        }
        let reschedule = store.reschedule(&ended, &routes);
        self.cost("reschedule", reschedule, Vec::len).await?;
        Ok(())
    }

    async fn queue(&mut self, queue: &dyn Bus) -> Verdict {
        let dequeue = Dequeue {
            topics: vec![Topic::of(&Domain::new(UNSAFE)?)],
            routes: Arc::new(self.routes.clone()),
            only: Arc::new(self.routes.clone()),
            max: ASKED,
            wait: Duration::ZERO,
            visibility: fixtures::LEASE,
            worker: fixtures::worker(3)?,
            attempts: fixtures::fresh_attempts(ASKED),
        };
        let call = queue.dequeue(&dequeue);
        self.cost("dequeue", call, Vec::len).await?;
        Ok(())
    }

    async fn outbox(&mut self) -> Verdict {
        let outbox = self.ports.outbox.clone();
        let claim = fixtures::claim(1, ASKED)?;
        let call = outbox.claim(&claim);
        let claimed = self.cost("outbox, claim", call, Vec::len).await?;
        let (published, released) = claimed.split_at(ASKED / 2);
        let some = |_: &()| ASKED / 2;
        let call = outbox.published(published);
        self.cost("outbox, published", call, some).await?;
        let call = outbox.release(released);
        self.cost("outbox, release", call, some).await?;
        let routes = self.routes.clone();
        let call = outbox.next_due(Some(&routes));
        self.cost("outbox, next due", call, |_| 0).await?;
        let patient = Silence {
            grace: DAY,
            pause_max: DAY,
        };
        let call = outbox.claim_silent(&claim, &patient);
        let quiet = self.cost("outbox, claim silent, none is", call, Vec::len);
        ensure!(quiet.await?.is_empty(), "no row is silent for a day");
        let hasty = Silence {
            grace: Duration::from_millis(1),
            pause_max: Duration::from_millis(1),
        };
        let call = outbox.claim_silent(&claim, &hasty);
        let silent = self.cost("outbox, claim silent, all are", call, Vec::len);
        ensure_eq!(silent.await?.len(), ASKED, "announced rows are silent");
        Ok(())
    }

    async fn recovery(&mut self) -> Verdict {
        let recovery = self.ports.recovery.clone();
        let scans = [
            ("scan, recorded", "next due, recorded", Scan::Unfinalized),
            ("scan, lease ended", "next due, lease", Scan::LeaseEnded),
            ("scan, probe due", "next due, probe", Scan::ProbeDue),
            ("scan, overdue", "next due, overdue", Scan::Overdue),
        ];
        for (name, next_due, scan) in scans {
            let claim = fixtures::claim(2, ASKED)?;
            let call = recovery.scan(scan, &claim);
            let found: Vec<Claimed> = self.cost(name, call, Vec::len).await?;
            ensure_eq!(found.len(), ASKED, "{name}");
            let call = recovery.next_due(scan);
            self.cost(next_due, call, |_| 0).await?;
        }
        self.letters().await
    }

    async fn letters(&mut self) -> Verdict {
        let recovery = self.ports.recovery.clone();
        let (open, newest) = (LetterFilter::default(), LetterOrder::NewestFirst);
        let letters = recovery.dead_letters(&open, newest, None, ASKED);
        let first = self.cost("dead letters", letters, of_page).await?;
        ensure_eq!(first.items.len(), ASKED, "a page of dead letters");
        let cursor = first.next_cursor.as_deref();
        let letters = recovery.dead_letters(&open, newest, cursor, ASKED);
        self.cost("dead letters, second page", letters, of_page)
            .await?;
        let (all, oldest) = (LetterFilter::all(), LetterOrder::OldestFirst);
        let letters = recovery.dead_letters(&all, oldest, None, ASKED);
        self.cost("dead letters of any status", letters, of_page)
            .await?;
        let dismissed = LetterFilter::of(Some(LetterState::Dismissed));
        let letters = recovery.dead_letters(&dismissed, newest, None, ASKED);
        let none = self.cost("dead letters, none is dismissed", letters, of_page);
        ensure_eq!(none.await?.items, [], "no letter is dismissed");
        let absent = LetterFilter {
            code: Some("absent".into()),
            ..LetterFilter::default()
        };
        let letters = recovery.dead_letters(&absent, newest, None, ASKED);
        let none = self.search("dead letters of a code", SEARCH, letters, of_page);
        ensure_eq!(none.await?.items, [], "no letter has this code");
        let letters = recovery.dead_letters(&open, LetterOrder::Accepted, None, ASKED);
        let accepted = self.cost("dead letters as accepted", letters, of_page);
        let accepted = accepted.await?.items;
        let ops: Vec<OpId> = accepted.iter().map(|letter| letter.op_id).collect();
        let letters = recovery.letters(&ops);
        self.cost("dead letters by id", letters, Vec::len).await?;
        let mut writes = Vec::new();
        for op_id in ops {
            writes.push(Write::Letter(LetterChange {
                op_id,
                action: LetterAction::Dismiss,
                by: fixtures::worker(1)?,
                reason: "measured".into(),
            }));
        }
        let (store, routes) = (self.ports.store.clone(), self.routes.clone());
        let call = store.commit(&writes, &routes);
        self.cost("dismiss dead letters", call, Vec::len).await?;
        Ok(())
    }

    async fn metrics(&mut self) -> Verdict {
        let domains = self.ports.domains.clone();
        let views = self.cost("domains", domains.domains(), Vec::len).await?;
        let is_due = |name: &str| {
            let of_name = views.iter().find(|view| view.domain.as_str() == name);
            of_name.is_some_and(|view| view.oldest_due.is_some())
        };
        ensure!(is_due(NATURAL), "announced rows are due");
        Ok(())
    }

    async fn reads(&mut self, templates: &Templates) -> Verdict {
        let inspect = self.ports.inspect.clone();
        let ops = [templates.completed, templates.announced];
        self.cost("get", inspect.get(&ops), Vec::len).await?;
        let keys = [fixtures::keys(NATURAL, "template", "template-0")?];
        // A store may keep recent keys in memory, and reads those it does not have yet: not counted.
        inspect.find(&keys).await?;
        self.cost("find", inspect.find(&keys), Vec::len).await?;
        let ledger = inspect.ledger(templates.completed);
        self.cost("ledger", ledger, Vec::len).await?;
        self.prefixes(templates).await?;
        let batches = self.ports.batches.clone();
        let batch = [templates.batch];
        self.cost("read batch", batches.read(&batch), Vec::len)
            .await?;
        let all = Restriction::default();
        let page = batches.list(&all, None, ASKED);
        let first = self.cost("list of batches", page, of_page).await?;
        ensure_eq!(first.items.len(), ASKED, "a page of batches");
        let cursor = first.next_cursor.as_deref();
        let page = batches.list(&all, cursor, ASKED);
        self.cost("list of batches, second page", page, of_page)
            .await?;
        let nobody = Restriction {
            domains: vec![Domain::new("nobody")?],
            ..Restriction::default()
        };
        let page = batches.list(&nobody, None, ASKED);
        let of_nobody = self.search("list of batches of others", 4 * PAGE_MAX, page, of_page);
        ensure_eq!(of_nobody.await?.items, [], "no batch of this domain");
        Ok(())
    }

    /// Ids by their first digits: of one operation, of very many, and of none.
    async fn prefixes(&mut self, templates: &Templates) -> Verdict {
        let inspect = self.ports.inspect.clone();
        let whole = templates.completed.to_string();
        for (name, digits, max) in [
            ("operation by its id", &*whole, ASKED),
            ("operations by eight digits", &whole[..8], ASKED),
            ("operations by digits of none", "ffffffff", ASKED),
        ] {
            let prefix: OpIdPrefix = digits.parse()?;
            let found = inspect.by_prefix(&prefix, max);
            self.cost(name, found, Vec::len).await?;
        }
        Ok(())
    }

    async fn lists(&mut self, templates: &Templates, middle: &str) -> Verdict {
        let before = self.ports.inspect.now().await? - DAY;
        for (name, cursor, filter) in filters(templates, middle, before)? {
            let inspect = self.ports.inspect.clone();
            let page = inspect.list(&filter, cursor, ASKED);
            let search = if filter.searches() { SEARCH } else { 0 };
            self.search(name, search, page, of_page).await?;
        }
        let long = self.ports.inspect.clone();
        let long = long.long_in_progress(before, ASKED);
        // Rows with a running attempt are looked at, up to a page of them.
        let long = self.search("long in progress", 8 * PAGE_MAX, long, Vec::len);
        ensure!(long.await?.is_empty(), "no attempt began a day ago");
        Ok(())
    }

    async fn pruning(&mut self) -> Verdict {
        let recovery = self.ports.recovery.clone();
        let call = recovery.seen_time();
        self.cost("seen time", call, |_| 1).await?;
        recovery.confirm_time().await?;
        // The first one may pass rows that no later one looks at again.
        recovery.prune(&PRUNE).await?;
        for name in ["prune", "prune again"] {
            let call = recovery.prune(&PRUNE);
            let rows = |pruned: &Pruned| pruned.operations + pruned.keys + pruned.batches;
            let pruned = self.cost(name, call, rows).await?;
            ensure_eq!(pruned.batches, ASKED, "old batches are pruned");
            ensure_eq!(pruned.operations, ASKED, "old operations are pruned");
            ensure_eq!(pruned.keys, ASKED, "old keys are pruned");
        }
        Ok(())
    }
}

fn of_page<T>(page: &Page<T>) -> usize {
    page.items.len()
}

/// Lists by name, with their cursor and filter.
fn filters<'a>(
    templates: &Templates,
    middle: &'a str,
    before: Timestamp,
) -> Verdict<Vec<(&'static str, Option<&'a str>, Filter)>> {
    let any = Filter::default;
    let mut lists = vec![
        ("list", None, any()),
        ("list, a page in the middle", Some(middle), any()),
    ];
    let mut add = |name, change: &dyn Fn(&mut Filter)| {
        let mut filter = any();
        change(&mut filter);
        lists.push((name, None, filter));
    };
    let (domain, absent) = (Domain::new(REAPED)?, EventType::new("absent")?);
    let biz_key = BizKey::new("template")?;
    add("list of a domain", &|filter| {
        filter.domains = vec![domain.clone()]
    });
    add("list of an event type that is not there", &|filter| {
        filter.event_types = vec![absent.clone()];
    });
    add("list of IN_PROGRESS, a day old", &|filter| {
        filter.status = Some(Status::InProgress);
        filter.to = Some(before);
    });
    add("list of FAILED", &|filter| {
        filter.status = Some(Status::Failed)
    });
    add("list of a label that is not there", &|filter| {
        filter.label = Some(("tenant".into(), "nobody".into()));
    });
    add("list of a transaction id", &|filter| {
        filter.provider_txn_id = Some("absent".into());
    });
    add("list of an error code that is not there", &|filter| {
        filter.code = Some("absent".into());
    });
    add("list of a phase", &|filter| {
        filter.phase = Some(Phase::Held)
    });
    add("list of a route that is not there", &|filter| {
        filter.routes = vec![OfRoute {
            domain: domain.clone(),
            event_type: Some(absent.clone()),
            except: Vec::new(),
        }];
    });
    add("list of a batch", &|filter| {
        filter.batch_id = Some(templates.batch)
    });
    add("list of a business object", &|filter| {
        filter.biz_key = Some(biz_key.clone());
    });
    Ok(lists)
}
