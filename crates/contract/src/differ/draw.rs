//! Draws the next call of a sequence.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes, Rules, SplitMix};
use clinch_core::ports::{
    Amendment, Among, Answer, Claim, Claimed, Extension, Filter, LetterAction, LetterChange,
    LetterFilter, LetterOrder, LetterState, NewBatch, NewOperation, Operation, Prune, Reschedule,
    Restriction, Scan, Write, fingerprint,
};
use clinch_core::protocol::{Event, Phase};
use clinch_core::{BatchId, OpId, Options, Retry, Status};

use super::step::{Side, Step};
use crate::case::Verdict;
use crate::chance::event;
use crate::fixtures::{
    self, CLAIM, LEASE, ROUTED, Sequence, UNROUTED, ok_answer, priority, secs, yes,
};
use crate::wire::ask;

const SCANS: [Scan; 4] = [
    Scan::Unfinalized,
    Scan::LeaseEnded,
    Scan::ProbeDue,
    Scan::Overdue,
];

/// What earlier calls created, for later calls to refer to.
pub(super) struct Drawn {
    ids: Sequence,
    ops: Vec<OpId>,
    batches: Vec<BatchId>,
    claimed: Vec<Claimed>,
    keys: Vec<clinch_core::Keys>,
    seed: u64,
}

fn pick<'a, T>(items: &'a [T], rng: &mut SplitMix) -> Option<&'a T> {
    let count = items.len() as u64;
    let at = (count > 0).then(|| rng.next_u64() % count)?;
    items.get(usize::try_from(at).ok()?)
}

fn one_in(chance: u64, rng: &mut SplitMix) -> bool {
    rng.next_u64().is_multiple_of(chance)
}

impl Drawn {
    pub(super) fn new() -> Verdict<Self> {
        Ok(Self {
            ids: Sequence::default(),
            ops: Vec::new(),
            batches: Vec::new(),
            claimed: Vec::new(),
            keys: Vec::new(),
            seed: 0,
        })
    }

    /// Starts a new sequence: its own operations and keys, on top of the earlier ones' rows.
    pub(super) fn begin(&mut self, seed: u64) {
        self.seed = seed;
        self.ops.clear();
        self.batches.clear();
        self.claimed.clear();
        self.keys.clear();
    }

    pub(super) async fn step(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Step> {
        let dice = rng.next_u64() % 100;
        Ok(match dice {
            0..=17 => Step::Commit(self.accept(side, rng).await?),
            18..=29 => Step::Dequeue(self.dequeue(rng)?),
            30..=45 => Step::Commit(self.change(side, rng).await?),
            46..=49 => Step::Commit(self.amend(side, rng).await?),
            50..=51 => Step::Commit(self.letter(side, rng).await?),
            52..=57 => Step::Commit(self.mixed(side, rng).await?),
            58..=66 => self.claims(side, rng).await?,
            67..=72 => Step::Advance(Duration::from_millis(rng.next_u64() % 200_000)),
            73..=74 => Step::Advance(secs(rng.next_u64() % 40_000)),
            75..=79 => self.batch(rng),
            80..=82 => {
                let domain = pick(&ROUTED, rng).copied().unwrap_or(UNROUTED);
                Step::Pause(fixtures::domain(domain)?, one_in(3, rng))
            }
            83 => Step::Prune(Prune {
                completed: secs(rng.next_u64() % 100_000),
                failed: secs(rng.next_u64() % 100_000),
                keys: secs(rng.next_u64() % 300_000),
                max: 100_000,
                reckoned: None,
                jump_max: Duration::MAX,
            }),
            84..=86 => {
                let owner = fixtures::worker(usize::from(one_in(2, rng)))?;
                match one_in(3, rng) {
                    true => Step::ReleaseLock("lock".into(), owner),
                    false => Step::Take("lock".into(), owner, secs(rng.next_u64() % 200)),
                }
            }
            _ => self.look(side, rng).await?,
        })
    }

    /// Reads everything of this sequence once more.
    pub(super) fn looks(&self) -> Vec<Step> {
        let ledgers = self.ops.iter().map(|op| Step::Ledger(*op));
        let rest = [
            Step::Get(self.ops.clone()),
            Step::Find(self.keys.clone()),
            Step::Batches(self.batches.clone()),
            Step::Domains,
            Step::Letters(self.ops.clone()),
            Step::DeadLetters(Box::new(LetterFilter::all()), LetterOrder::NewestFirst),
            Step::NextDue,
        ];
        ledgers.chain(rest).collect()
    }

    fn new_operation(&mut self, rng: &mut SplitMix) -> Verdict<NewOperation> {
        let domain = match one_in(12, rng) {
            true => UNROUTED,
            false => pick(&ROUTED, rng).copied().unwrap_or(UNROUTED),
        };
        let biz_key = format!("biz-{}-{}", self.seed, rng.next_u64() % 3);
        let idem_key = format!("idem-{}", rng.next_u64() % 6);
        let keys = fixtures::keys(domain, &biz_key, &idem_key)?;
        let payload = fixtures::payload(u64::from(one_in(8, rng)))?;
        let op_id = self.ids.op_id();
        self.ops.push(op_id);
        self.keys.push(keys.clone());
        Ok(fixtures::operation(op_id, keys, &payload))
    }

    async fn accept(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Vec<Write>> {
        let now = side.world.now().await?;
        let mut all = Vec::new();
        for _ in 0..=rng.next_u64() % 3 {
            let mut new = self.new_operation(rng)?;
            new.options = Options {
                run_at: one_in(4, rng).then(|| now + secs(rng.next_u64() % 300)),
                deadline: one_in(5, rng).then(|| now + secs(rng.next_u64() % 900)),
                ..priority((rng.next_u64() % 21) as i8 - 10)?
            };
            if one_in(2, rng) {
                new.options.priority = Default::default();
            }
            if one_in(3, rng) {
                new.begin = Some(self.ids.begin(new.op_id, 0)?);
            }
            if one_in(4, rng) {
                new.batch_id = pick(&self.batches, rng).copied();
            }
            if one_in(9, rng) {
                new.redrive_of = pick(&self.ops, rng).copied();
            }
            all.push(Write::Accept(new));
        }
        Ok(all)
    }

    fn dequeue(&self, rng: &mut SplitMix) -> Verdict<clinch_core::ports::Dequeue> {
        let wanted = ROUTED.iter().filter(|_| one_in(2, rng)).copied();
        let mut domains: Vec<&str> = wanted.collect();
        domains.extend(one_in(4, rng).then_some(UNROUTED));
        let max = usize::try_from(rng.next_u64() % 4).unwrap_or(0);
        ask(&domains, max, Duration::ZERO)
    }

    /// Some row, for its fence; preferably a live one.
    async fn some_row(&self, side: &Side, rng: &mut SplitMix) -> Verdict<Option<Operation>> {
        let rows = side.world.inspect.get(&self.ops).await?;
        let rows: Vec<Operation> = rows.into_iter().flatten().collect();
        let is_live = |row: &&Operation| row.state.phase == Some(Phase::Live);
        let live: Vec<Operation> = rows.iter().filter(is_live).cloned().collect();
        let from = if one_in(5, rng) || live.is_empty() {
            &rows
        } else {
            &live
        };
        Ok(pick(from, rng).cloned())
    }

    async fn change(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Vec<Write>> {
        let Some(row) = self.some_row(side, rng).await? else {
            return self.accept(side, rng).await;
        };
        let op_id = row.op_id;
        let fence = match one_in(6, rng) {
            true => row.state.fence.saturating_sub(1),
            false => row.state.fence,
        };
        Ok(vec![match rng.next_u64() % 14 {
            0..=1 => Write::Begin(self.ids.begin(op_id, 1)?),
            2 => Write::Extend(Extension {
                op_id,
                fence,
                lease: LEASE,
                attempt_id: None,
            }),
            3..=4 => Write::WriteAhead(self.answer(op_id, fence, rng)?),
            5..=6 => Write::Finalize(op_id),
            7..=10 => Write::Settle(self.answer(op_id, fence, rng)?),
            _ => {
                let retries = [Retry::not_applied, Retry::unknown, Retry::not_called];
                let retry = retries[(rng.next_u64() % 3) as usize]("the suite".to_owned());
                let after = one_in(3, rng).then(|| secs(rng.next_u64() % 100));
                let worker = fixtures::worker(1)?;
                Write::Reschedule(Reschedule {
                    op_id,
                    fence,
                    worker,
                    retry: Retry { after, ..retry },
                    attempt_id: None,
                })
            }
        }])
    }

    /// Writes of several kinds in one commit, some of them of the same rows.
    async fn mixed(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Vec<Write>> {
        let mut writes = Vec::new();
        for _ in 0..2 + rng.next_u64() % 4 {
            writes.extend(match rng.next_u64() % 9 {
                0..=1 => self.accept(side, rng).await?,
                8 => self.letter(side, rng).await?,
                2..=4 => self.change(side, rng).await?,
                5..=6 => self.amend(side, rng).await?,
                _ => {
                    let batch = pick(&self.batches, rng).copied();
                    batch.map(Write::Seal).into_iter().collect()
                }
            });
        }
        if one_in(2, rng)
            && let Some(Write::Accept(new)) =
                writes.iter().find(|one| matches!(one, Write::Accept(_)))
        {
            // A row that this very commit makes.
            writes.push(Write::Begin(self.ids.begin(new.op_id, 1)?));
        }
        Ok(writes)
    }

    fn answer(&mut self, op_id: OpId, fence: u64, rng: &mut SplitMix) -> Verdict<Answer> {
        if one_in(3, rng) {
            return fixtures::fail_answer(op_id, fence);
        }
        let fence = (!one_in(8, rng)).then_some(fence);
        let mut answer = ok_answer(op_id, fence, &format!("txn-{}", rng.next_u64() % 5))?;
        if one_in(4, rng) {
            let child = self.new_operation(rng)?;
            if let clinch_core::ports::AnswerBody::Ok(ok) = &mut answer.body {
                ok.spawn.push(child);
            }
        }
        Ok(answer)
    }

    async fn amend(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Vec<Write>> {
        let now = side.world.now().await?;
        let Some(row) = self.some_row(side, rng).await? else {
            return self.accept(side, rng).await;
        };
        let event = event(&row, now, rng);
        let brings = matches!(event, Event::Ok { .. }) || one_in(4, rng);
        let checkpoint = matches!(event, Event::Checkpoint { .. });
        Ok(vec![Write::Amend(Amendment {
            op_id: row.op_id,
            event,
            ok: brings.then(|| yes("amended")),
            checkpoint: checkpoint.then(|| clinch_core::Sealed::new(vec![1, 2, 3])),
            by: fixtures::worker(2)?,
            reason: "the suite".into(),
            attempt_id: None,
        })])
    }

    async fn claims(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Step> {
        let max = usize::try_from(1 + rng.next_u64() % 3).unwrap_or(1);
        let domain = pick(&ROUTED, rng).copied().unwrap_or(UNROUTED);
        let domain = fixtures::domain(domain)?;
        let only = Routes::new().with(domain, EventTypes::Any, Rules::default());
        let claim = Claim {
            lasting: CLAIM,
            max,
            among: match rng.next_u64() % 6 {
                0 => Among::Routes(Arc::new(only)),
                1 => Among::Others(Arc::new(only)),
                _ => Among::All,
            },
            ..fixtures::claim(3, max)?
        };
        let scan = pick(&SCANS, rng).copied().unwrap_or(Scan::Overdue);
        Ok(match rng.next_u64() % 10 {
            0..=2 => {
                // The reference's claim, to publish or release later.
                let claimed = side.world.outbox.claim(&claim).await?;
                side.world.outbox.release(&claimed).await?;
                self.claimed = claimed;
                Step::Claim(claim)
            }
            3..=4 => Step::Published(std::mem::take(&mut self.claimed)),
            5 => Step::Release(std::mem::take(&mut self.claimed)),
            6 => Step::ClaimSilent(claim),
            _ => Step::Scan(scan, claim),
        })
    }

    fn batch(&mut self, rng: &mut SplitMix) -> Step {
        match (rng.next_u64() % 4, pick(&self.batches, rng).copied()) {
            (0..=1, Some(batch_id)) => Step::Commit(vec![Write::Seal(batch_id)]),
            (2, Some(batch_id)) => Step::Batches(vec![batch_id]),
            _ => {
                let batch_id = self.ids.batch_id();
                self.batches.push(batch_id);
                let on_complete = one_in(2, rng).then(|| self.new_operation(rng).ok());
                Step::Open(vec![NewBatch {
                    batch_id,
                    on_complete: on_complete.flatten(),
                    owner: Restriction::default(),
                }])
            }
        }
    }

    async fn look(&self, side: &Side, rng: &mut SplitMix) -> Verdict<Step> {
        let row = self.some_row(side, rng).await?;
        let op_id = row
            .as_ref()
            .map_or_else(|| self.ids.op_id(), |row| row.op_id);
        let attempt = row.as_ref().and_then(|row| row.state.attempt_id);
        let scan = pick(&SCANS, rng).copied().unwrap_or(Scan::Overdue);
        Ok(match rng.next_u64() % 10 {
            0 => Step::Domains,
            1 => Step::Ledger(op_id),
            2 => Step::Begun(attempt.into_iter().collect()),
            3 => Step::Find(pick(&self.keys, rng).cloned().into_iter().collect()),
            4 if one_in(3, rng) => Step::Letters(self.ops.clone()),
            4 => self.dead_letters(row.as_ref(), rng),
            5 => Step::NextDue,
            6 => Step::NextNeed(scan),
            7..=8 => Step::List(Box::new(self.filter(row.as_ref(), rng)), 5),
            _ => Step::Get(vec![op_id]),
        })
    }

    fn dead_letters(&self, row: Option<&Operation>, rng: &mut SplitMix) -> Step {
        let keys = row.map(|row| &row.keys).filter(|_| one_in(2, rng));
        let orders = [
            LetterOrder::NewestFirst,
            LetterOrder::OldestFirst,
            LetterOrder::Accepted,
        ];
        let failure = row.and_then(|row| row.state.failure.as_ref());
        let filter = LetterFilter {
            state: match rng.next_u64() % 4 {
                3 => None,
                state => LetterState::ALL.get(state as usize).copied(),
            },
            domains: keys.iter().map(|keys| keys.domain.clone()).collect(),
            event_types: keys
                .filter(|_| one_in(3, rng))
                .map(|keys| keys.event_type.clone())
                .into_iter()
                .collect(),
            biz_key: keys
                .map(|keys| keys.biz_key.clone())
                .filter(|_| one_in(2, rng)),
            idem_key: keys
                .map(|keys| keys.idem_key.clone())
                .filter(|_| one_in(5, rng)),
            code: failure
                .map(|failure| failure.code.clone())
                .filter(|_| one_in(2, rng)),
            fingerprint: failure
                .zip(keys)
                .map(|(failure, keys)| fingerprint(&keys.domain, &keys.event_type, failure))
                .filter(|_| one_in(3, rng)),
            from: row
                .and_then(|row| row.finished_at)
                .filter(|_| one_in(3, rng)),
            to: row
                .and_then(|row| row.finished_at)
                .filter(|_| one_in(6, rng)),
            seq_max: row.map(|row| row.seq).filter(|_| one_in(4, rng)),
        };
        let order = pick(&orders, rng).copied().unwrap_or_default();
        Step::DeadLetters(Box::new(filter), order)
    }

    /// Dismisses or reopens the letters of some operations, failed or not.
    async fn letter(&mut self, side: &Side, rng: &mut SplitMix) -> Verdict<Vec<Write>> {
        let rows = side.world.inspect.get(&self.ops).await?;
        let failed = rows
            .into_iter()
            .flatten()
            .filter(|row| row.state.status == Status::Failed);
        let failed: Vec<OpId> = failed.map(|row| row.op_id).collect();
        let from = if one_in(6, rng) { &self.ops } else { &failed };
        let Some(op_id) = pick(from, rng).copied() else {
            return self.accept(side, rng).await;
        };
        let action = match one_in(3, rng) {
            true => LetterAction::Reopen,
            false => LetterAction::Dismiss,
        };
        Ok(vec![Write::Letter(LetterChange {
            op_id,
            action,
            by: fixtures::worker(4)?,
            reason: "the suite".into(),
        })])
    }

    fn filter(&self, row: Option<&Operation>, rng: &mut SplitMix) -> Filter {
        let keys = row.map(|row| &row.keys);
        let statuses = [
            Status::Pending,
            Status::InProgress,
            Status::Completed,
            Status::Failed,
        ];
        let other = pick(&self.keys, rng).map(|keys| keys.domain.clone());
        Filter {
            domains: keys
                .map(|keys| keys.domain.clone())
                .filter(|_| one_in(3, rng))
                .into_iter()
                .chain(other.filter(|_| one_in(4, rng)))
                .collect(),
            event_types: keys
                .map(|k| k.event_type.clone())
                .filter(|_| one_in(4, rng))
                .into_iter()
                .collect(),
            biz_key: keys
                .map(|keys| keys.biz_key.clone())
                .filter(|_| one_in(2, rng)),
            idem_key: keys
                .map(|keys| keys.idem_key.clone())
                .filter(|_| one_in(5, rng)),
            provider_txn_id: one_in(9, rng).then(|| "txn-1".into()),
            status: pick(&statuses, rng).copied().filter(|_| one_in(3, rng)),
            phase: one_in(6, rng).then_some(Phase::Live),
            batch_id: pick(&self.batches, rng).copied().filter(|_| one_in(4, rng)),
            from: row.map(|row| row.accepted_at).filter(|_| one_in(3, rng)),
            to: row.map(|row| row.accepted_at).filter(|_| one_in(6, rng)),
            label: None,
            code: None,
            routes: Vec::new(),
        }
    }
}
