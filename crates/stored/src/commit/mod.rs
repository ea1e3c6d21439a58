//! What a commit does, as a pure function.
//!
//! A transition of one row is [`State::apply`](clinch_core::protocol::State::apply). A commit is
//! more: it takes several [`Write`]s in order, and each may touch keys, lanes, batches, counters,
//! the ledger, and operations that an answer spawns. All of that is here, once, and knows no
//! database. A store does three things for it:
//!
//! ```text
//! let mut unit = Unit::new(&writes, &routes);
//! loop {
//!     match unit.next(now)? {
//!         Next::Load => load(unit.wanted(), unit.seen_mut())?,  // read and lock
//!         Next::Write(plan) => {                                // compare-and-set, insert, delete
//!             let seqs = write(&plan)?;
//!             unit.written(plan, seqs);
//!         }
//!         Next::Done(answers) => return Ok(answers),
//!     }
//! }
//! ```
//!
//! [`Seen`] is what the transaction has read. Where the plan needs more, it says what
//! ([`Wanted`]); the store loads that and asks again. Planning starts over each time, so that a
//! plan never rests on half of what it needs. What the store does not find, it leaves out: the
//! unit takes it as absent.
//!
//! The path through the files: `accept` takes operations in, `change` applies events and what
//! follows from them, `batch` counts members and completes batches, `letters` keeps
//! the status of dead letters, `plan` is what comes out.

mod accept;
mod batch;
mod change;
mod letters;
mod plan;
mod row;
mod seen;
mod work;

pub use letters::LetterWrite;
pub use plan::{Awaits, BatchWrite, Due, Extent, LaneWrite, NewKey, Plan, RowWrite, SpawnWrite};
pub use row::{Line, Request, Row, is_provisional};
pub use seen::{BatchRow, KnownKey, Members, Seen, SeenLetter, Wanted, WantedKey};

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, Write, Written};
use clinch_core::{Result, Timestamp};

use work::Work;

/// One transaction's work, on its way from writes to answers.
#[derive(Debug)]
pub struct Unit<'a> {
    writes: &'a [Write],
    routes: &'a Routes,
    seen: Seen,
    wanted: Wanted,
    answers: Vec<Written>,
}

/// What the store does next.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one exists at a time, and every commit would pay for a box"
)]
pub enum Next {
    /// Load what [`Unit::wanted`] names into [`Unit::seen_mut`].
    Load,
    /// Write this, and report by [`Unit::written`].
    Write(Plan),
    /// Everything is written: one answer for each write.
    Done(Vec<Written>),
}

impl<'a> Unit<'a> {
    /// Nothing is read yet.
    pub fn new(writes: &'a [Write], routes: &'a Routes) -> Self {
        Self::with(writes, routes, Seen::default())
    }

    /// Some of what the writes need is read and locked already.
    pub fn with(writes: &'a [Write], routes: &'a Routes, seen: Seen) -> Self {
        Self {
            writes,
            routes,
            seen,
            wanted: Wanted::default(),
            answers: Vec::with_capacity(writes.len()),
        }
    }

    /// What to load.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Where to put what was loaded.
    pub fn seen_mut(&mut self) -> &mut Seen {
        &mut self.seen
    }

    /// What to load, and where to put it.
    pub fn load(&mut self) -> (&Wanted, &mut Seen) {
        (&self.wanted, &mut self.seen)
    }

    /// Plans the writes that are left. `now` is the store's clock after the rows were locked.
    pub fn next(&mut self, now: Timestamp) -> Result<Next> {
        let wanted = std::mem::take(&mut self.wanted);
        self.seen.conclude(wanted)?;
        let left = &self.writes[self.answers.len()..];
        if left.is_empty() {
            return Ok(Next::Done(std::mem::take(&mut self.answers)));
        }
        match Work::new(&self.seen, self.routes, now, left).plan(left)? {
            work::Planned::Load(wanted) => {
                self.wanted = wanted;
                Ok(Next::Load)
            }
            work::Planned::Write(plan) => Ok(Next::Write(plan)),
        }
    }

    /// Nothing is left to plan after this plan: it may be written with the commit itself.
    pub fn is_last(&self, plan: &Plan) -> bool {
        self.answers.len() + plan.answers.len() == self.writes.len()
    }

    /// The plan is written. `seqs` are those of its new rows, in the plan's order.
    pub fn written(&mut self, mut plan: Plan, seqs: &[u64]) {
        let new = plan.rows.iter().filter(|row| row.before.is_none());
        let by_provisional: std::collections::HashMap<u64, u64> = new
            .map(|write| write.row.seq)
            .zip(seqs.iter().copied())
            .collect();
        for answer in &mut plan.answers {
            if let Written::Accepted(Accepted::New { seq, .. }) = answer
                && let Some(drawn) = by_provisional.get(seq)
            {
                *seq = *drawn;
            }
        }
        self.answers.append(&mut plan.answers);
        // What was read is what was there before.
        self.seen.forget_rows();
    }

    /// The answers, once everything is written.
    pub fn into_answers(self) -> Vec<Written> {
        self.answers
    }
}
