//! Locks and reads what a plan needs, in one round trip if no key is known.
//!
//! Locks are always taken in the same order: keys, lanes, operations, batches, dead letters,
//! counters, each kind in order of its ids.

use std::collections::BTreeMap;
use std::ops::Range;

use clinch_core::{LaneKey, Result};
use clinch_stored::commit::{Members, Seen, Wanted};

use crate::batches::read_batch_row;
use crate::column::Column;
use crate::keys::{insert_keys, nonce};
use crate::letters::seen_letter;
use crate::link::{Answer, Script};
use crate::query::Query;
use crate::row;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// The index ranges of the statements' answers; empty for statements that were not needed.
struct AnswerRanges {
    keys: Range<usize>,
    members: Range<usize>,
    rows: Range<usize>,
    batches: Range<usize>,
    pauses: Range<usize>,
    taken: Range<usize>,
    spawns: Range<usize>,
    letters: Range<usize>,
}

impl Tx<'_> {
    /// Locks and reads the wanted rows. Rows that do not exist are left out.
    pub(crate) async fn load(&mut self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let nonce = nonce();
        let mut script = Script::default();
        let places = self.ask(wanted, nonce, &mut script);
        let answers = self.run(script).await?;
        let rows = |range: &Range<usize>| answers[range.clone()].iter().flat_map(|one| &one.rows);
        for row in rows(&places.rows) {
            seen.row(match is_whole(wanted) {
                true => row::read_whole(row)?,
                false => row::read(row)?,
            });
        }
        for row in rows(&places.batches) {
            seen.batch(read_batch_row(row)?);
        }
        if let Some(pauses) = answers[places.pauses.clone()].first() {
            self.note_paused(pauses)?;
        }
        for domain in wanted.domains.iter().filter(|one| self.is_paused(one)) {
            seen.paused(domain.clone());
        }
        for row in rows(&places.taken) {
            seen.taken(row.op_id(0)?);
        }
        for row in rows(&places.spawns) {
            seen.spawn(row.op_id(0)?, row.bytes(1)?)?;
        }
        for row in rows(&places.letters) {
            seen.letter(row.op_id(0)?, seen_letter(row)?);
        }
        self.note_lanes(wanted, &answers[places.members], seen)?;
        let inserts = &answers[places.keys];
        self.note_keys(&wanted.keys, inserts, nonce, seen).await
    }

    fn ask(&self, wanted: &Wanted, nonce: u64, script: &mut Script) -> AnswerRanges {
        let ids = text::list(wanted.rows.keys().map(|op| op.0.as_bytes()));
        let keys = of(script, |script| insert_keys(&wanted.keys, nonce, script));
        if !wanted.rows.is_empty() {
            let lanes = wanted.lanes.iter().map(|lane| {
                let lane = text::literal(lane.as_bytes());
                format!(" UNION SELECT {lane}")
            });
            let values = [("ids", ids.as_str()), ("lanes", &lanes.collect::<String>())];
            script.add(&Query::LockLanesOf.with(&values));
        }
        insert_lanes(wanted, script);
        let members = of(script, |script| ask_members(wanted, script));
        let rows = of(script, |script| {
            if !wanted.rows.is_empty() {
                for query in [Query::LockQueue, Query::LockHistory] {
                    script.add(&query.of_rows(is_whole(wanted), &[("ids", &ids)]));
                }
            }
        });
        let batches = wanted.batches.iter().map(|id| id.0.into_bytes());
        let batches = of_ids(script, Query::LockBatches, batches);
        let pauses = of(script, |script| {
            if !wanted.domains.is_empty() {
                self.ask_paused(script);
            }
        });
        // The insert itself fails if an id is taken; only the retry has to know which id.
        let taken = wanted.ids.iter().filter(|_| self.checks_ids);
        let taken = of_ids(script, Query::TakenIds, taken.map(|op| op.0.into_bytes()));
        let spawns = wanted.spawns.iter().map(|op| op.0.into_bytes());
        let spawns = of_ids(script, Query::Spawns, spawns);
        let letters = wanted.letters.iter().map(|op| op.0.into_bytes());
        let letters = of_ids(script, Query::LockLetters, letters);
        AnswerRanges {
            keys,
            members,
            rows,
            batches,
            pauses,
            taken,
            spawns,
            letters,
        }
    }

    /// Records the first members of each lane.
    fn note_lanes(&mut self, wanted: &Wanted, answers: &[Answer], seen: &mut Seen) -> Result<()> {
        let mut lanes: BTreeMap<LaneKey, Members> = BTreeMap::new();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            if let Some(lane) = row.maybe_lane(0)? {
                let members = lanes.entry(lane).or_default();
                members.open.insert(row.count(1)?, None);
            }
        }
        for lane in &wanted.lanes {
            let mut members = lanes.remove(lane).unwrap_or_default();
            members.has_more = members.open.len() >= wanted.lane_depth;
            if members.open.is_empty() {
                self.reserved_lanes.insert(*lane);
            }
            seen.lane(*lane, members);
        }
        Ok(())
    }
}

/// Whether to read rows together with their requests. One statement reads all rows, so that they
/// are locked in order of their ids; it includes requests if any row is wanted with its request.
fn is_whole(wanted: &Wanted) -> bool {
    wanted.rows.values().any(|whole| *whole)
}

/// Locks lanes, and creates missing ones.
fn insert_lanes(wanted: &Wanted, script: &mut Script) {
    let row = |lane: &LaneKey| Tuple::new().bytes(lane.as_bytes()).end();
    let rows: Vec<String> = wanted.lanes.iter().map(row).collect();
    script.add_rows(Query::InsertLanes, &rows);
}

fn ask_members(wanted: &Wanted, script: &mut Script) {
    let limit = wanted.lane_depth.to_string();
    for lane in &wanted.lanes {
        let lane = text::literal(lane.as_bytes());
        script.add(&Query::LaneMembers.with(&[("lane", &lane), ("limit", &limit)]));
    }
}

/// The index range of the statements that `add` adds.
fn of(script: &mut Script, add: impl FnOnce(&mut Script)) -> Range<usize> {
    let first = script.count();
    add(script);
    first..script.count()
}

/// The same for a statement about these ids, if there are any.
fn of_ids(script: &mut Script, query: Query, ids: impl Iterator<Item = [u8; 16]>) -> Range<usize> {
    let ids: Vec<_> = ids.collect();
    of(script, |script| {
        if !ids.is_empty() {
            script.add(&query.with(&[("ids", &text::list(&ids))]));
        }
    })
}
