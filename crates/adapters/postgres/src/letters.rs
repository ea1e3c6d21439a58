//! Dead letters: their lists, their status, and letters of earlier releases.

use std::collections::{BTreeSet, HashMap, HashSet};

use clinch_core::ports::{DeadLetter, LetterFilter, LetterOrder, LetterStatus, LetterView, Page};
use clinch_core::protocol::{Inherited, State};
use clinch_core::{Domain, Failure, Keys, OpId, Result, Timestamp};
use clinch_stored::codec;
use clinch_stored::commit::{Plan, Seen, SeenLetter, Wanted};
use clinch_stored::json::{self, to_text};
use clinch_stored::letters::{Place, Search, Summary, imported, mark_of, read_mark};
use tokio_postgres::Row as SqlRow;
use uuid::Uuid;

use crate::link::{Command, Link, Params};
use crate::names::Names;
use crate::query::Query;
use crate::row::{count, stored};
use crate::tx::Tx;
use crate::{Postgres, error};

/// Letters of an earlier release that are completed in one transaction.
const COMPLETED_AT_ONCE: i64 = 500;

fn read_letter(row: &SqlRow) -> Result<LetterView> {
    let summary: Summary = json::read(row.get::<_, &str>(11).as_bytes())?;
    let text = |at| row.get::<_, &str>(at);
    Ok(LetterView {
        op_id: OpId(row.get(0)),
        failed_at: Timestamp::from_millis(row.get(1)),
        seq: count(row.get(2))?,
        keys: Keys {
            domain: text(4).parse().map_err(error::unreadable)?,
            event_type: text(5).parse().map_err(error::unreadable)?,
            biz_key: text(6).parse().map_err(error::unreadable)?,
            idem_key: text(7).parse().map_err(error::unreadable)?,
        },
        fingerprint: row.get(8),
        status: status(row, 9)?,
        late_ok: row.get(10),
        failure: summary.failure,
        attempts: summary.attempts,
    })
}

fn status(row: &SqlRow, at: usize) -> Result<LetterStatus> {
    read_mark(row.get::<_, Option<&str>>(at).map(str::as_bytes))
}

fn code(status: &LetterStatus) -> i16 {
    i16::from(status.state().code())
}

/// Names as a parameter; `None`: any.
fn names<T: ToString>(names: &[T]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.iter().map(ToString::to_string).collect())
}

impl Postgres {
    pub(crate) async fn list_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        mut search: Search,
    ) -> Result<Page<LetterView>> {
        let query = match (order, filter.state) {
            (LetterOrder::NewestFirst, Some(_)) => Query::LettersNewest,
            (LetterOrder::NewestFirst, None) => Query::AllLettersNewest,
            (LetterOrder::OldestFirst, Some(_)) => Query::LettersOldest,
            (LetterOrder::OldestFirst, None) => Query::AllLettersOldest,
            (LetterOrder::Accepted, _) => Query::LettersAccepted,
        };
        let state = filter.state.map(|state| i16::from(state.code()));
        let (key, op_id, until) = (search.after.key, search.after.op_id.0, search.until);
        let limit = stored(search.rows() as u64);
        let (domains, types) = (names(&filter.domains), names(&filter.event_types));
        let biz_key = filter.biz_key.as_ref().map(|key| key.as_str());
        let idem_key = filter.idem_key.as_ref().map(|key| key.as_str());
        let (from, to) = (filter.from, filter.to);
        let (from, to) = (from.map(Timestamp::as_millis), to.map(Timestamp::as_millis));
        let seq_max = filter.seq_max.map(stored);
        let params: Params<'_> = &[
            &state,
            &key,
            &op_id,
            &until,
            &limit,
            &domains,
            &types,
            &biz_key,
            &idem_key,
            &filter.code,
            &filter.fingerprint,
            &from,
            &to,
            &seq_max,
        ];
        let client = self.client().await?;
        let mut failed = None;
        Link::Pooled(&client)
            .each(query, params, |row| {
                let key = match order {
                    LetterOrder::NewestFirst | LetterOrder::OldestFirst => row.get(1),
                    LetterOrder::Accepted => row.get(2),
                };
                let op_id = OpId(row.get(0));
                let letter = row.get::<_, bool>(3).then(|| read_letter(&row)).transpose();
                match letter {
                    Ok(letter) => search.look(Place { key, op_id }, letter),
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            })
            .await?;
        failed.map_or_else(|| Ok(search.page()), Err)
    }

    pub(crate) async fn letters_by_id(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        let ids: Vec<Uuid> = ops.iter().map(|op| op.0).collect();
        let rows = self.shared.query(Query::LettersById, &[&ids]).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let letter = read_letter(row)?;
            found.insert(letter.op_id, letter);
        }
        Ok(ops.iter().map(|op| found.get(op).cloned()).collect())
    }

    /// Completes letters that an earlier release has written.
    pub(crate) async fn complete_letters(&self) -> Result<()> {
        let is_incomplete = [&1_i64 as &(dyn tokio_postgres::types::ToSql + Sync)];
        while self
            .shared
            .first(Query::IncompleteLetters, &is_incomplete)
            .await?
            .is_some()
        {
            self.write((), |tx, ()| Box::pin(tx.complete_letters()))
                .await?;
        }
        Ok(())
    }
}

impl Tx<'_> {
    /// Reads and locks dead letters.
    pub(crate) async fn load_letters(&mut self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        if wanted.letters.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = wanted.letters.iter().map(|op| op.0).collect();
        for row in self.query(Query::LettersForUpdate, &[&ids]).await? {
            let domain = row.get::<_, &str>(1).parse();
            let letter = SeenLetter {
                domain: domain.map_err(error::unreadable)?,
                status: status(&row, 2)?,
            };
            seen.letter(OpId(row.get(0)), letter);
        }
        Ok(())
    }

    /// Keeps letters that came from outside; true where one was new.
    pub(crate) async fn import_letters(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        let domains: BTreeSet<&Domain> = letters.iter().map(|one| &one.keys.domain).collect();
        for domain in domains {
            self.query(Query::InsertDomain, &[&domain.as_str()]).await?;
        }
        let columns = Columns::of(letters.iter().map(|letter| imported(letter, 0)))?;
        let at: Vec<i64> = letters.iter().map(|l| l.failed_at.as_millis()).collect();
        let texts: Vec<String> = letters.iter().map(to_text).collect::<Result<_>>()?;
        let c = &columns;
        let params: Params<'_> = &[
            &c.ids,
            &at,
            &texts,
            &c.domains,
            &c.types,
            &c.biz_keys,
            &c.idem_keys,
            &c.codes,
            &c.fingerprints,
            &c.late_ok,
        ];
        let rows = self.query(Query::ImportLetters, params).await?;
        let mut new: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        Ok(c.ids.iter().map(|id| new.remove(id)).collect())
    }

    async fn complete_letters(&mut self) -> Result<()> {
        let rows = self.query(Query::IncompleteLetters, &[&COMPLETED_AT_ONCE]);
        let rows = rows.await?;
        let names = &self.shared.names;
        let streams = rows.iter().filter_map(|row| row.get(3));
        names.learn(&self.link, streams).await?;
        let letters = rows.iter().map(|row| earlier(row, names));
        let letters: Vec<LetterView> = letters.collect::<Result<_>>()?;
        let domains: BTreeSet<&Domain> = letters.iter().map(|one| &one.keys.domain).collect();
        for domain in domains {
            self.query(Query::InsertDomain, &[&domain.as_str()]).await?;
        }
        let summary = |letter: &LetterView| {
            to_text(&Summary {
                failure: letter.failure.clone(),
                attempts: letter.attempts,
            })
        };
        let texts: Vec<String> = letters.iter().map(summary).collect::<Result<_>>()?;
        let c = Columns::of(letters.into_iter())?;
        let params: Params<'_> = &[
            &c.ids,
            &texts,
            &c.statuses,
            &c.marks,
            &c.seqs,
            &c.domains,
            &c.types,
            &c.biz_keys,
            &c.idem_keys,
            &c.codes,
            &c.fingerprints,
            &c.late_ok,
        ];
        self.query(Query::CompleteLetters, params).await.map(drop)
    }
}

/// A letter of an earlier release: written out, or read from its operation.
fn earlier(row: &SqlRow, names: &Names) -> Result<LetterView> {
    let seq = row.get::<_, Option<i64>>(7).map_or(Ok(0), count)?;
    let redriven = row.get::<_, Option<Uuid>>(8);
    let redriven = redriven.map(|by| LetterStatus::Redriven { by: OpId(by) });
    let status = redriven.unwrap_or_default();
    if let Some(letter) = row.get::<_, Option<&str>>(2) {
        let letter: DeadLetter = json::read(letter.as_bytes())?;
        return Ok(LetterView {
            status,
            ..imported(&letter, seq)
        });
    }
    let stream: Option<i32> = row.get(3);
    let stream = stream.ok_or_else(|| error::corrupt("dead letter without an operation"))?;
    let stream = names.stream(stream)?;
    let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
    codec::decode(row.get(6), &mut state)?;
    let unknown = || Failure::own("unknown", "", state.effect);
    let summary = Summary {
        failure: state.failure.clone().unwrap_or_else(unknown),
        attempts: state.attempts,
    };
    let text = |at| row.get::<_, &str>(at);
    Ok(LetterView {
        op_id: OpId(row.get(0)),
        failed_at: Timestamp::from_millis(row.get(1)),
        seq,
        fingerprint: summary.fingerprint(&stream.domain, &stream.event_type),
        keys: Keys {
            domain: stream.domain,
            event_type: stream.event_type,
            biz_key: text(4).parse().map_err(error::unreadable)?,
            idem_key: text(5).parse().map_err(error::unreadable)?,
        },
        failure: summary.failure,
        attempts: summary.attempts,
        late_ok: state.late_ok,
        status,
    })
}

/// Letters by column, as statements take them.
#[derive(Default)]
struct Columns {
    ids: Vec<Uuid>,
    statuses: Vec<i16>,
    marks: Vec<Option<String>>,
    seqs: Vec<i64>,
    domains: Vec<String>,
    types: Vec<String>,
    biz_keys: Vec<String>,
    idem_keys: Vec<String>,
    codes: Vec<String>,
    fingerprints: Vec<String>,
    late_ok: Vec<bool>,
}

impl Columns {
    fn of(letters: impl Iterator<Item = LetterView>) -> Result<Self> {
        let mut columns = Self::default();
        for letter in letters {
            columns.ids.push(letter.op_id.0);
            columns.statuses.push(code(&letter.status));
            columns.marks.push(mark_of(&letter.status)?);
            columns.seqs.push(stored(letter.seq));
            columns.domains.push(letter.keys.domain.to_string());
            columns.types.push(letter.keys.event_type.to_string());
            columns.biz_keys.push(letter.keys.biz_key.to_string());
            columns.idem_keys.push(letter.keys.idem_key.to_string());
            columns.codes.push(letter.failure.code);
            columns.fingerprints.push(letter.fingerprint);
            columns.late_ok.push(letter.late_ok);
        }
        Ok(columns)
    }
}

/// The commands that change the letters of a plan. They follow the one that makes letters.
pub(crate) fn write(plan: &Plan) -> Result<Vec<Command>> {
    let mut commands = Vec::new();
    let late = plan.rows.iter().filter(|write| write.late_ok);
    let late: Vec<Uuid> = late.map(|write| write.row.op_id.0).collect();
    if !late.is_empty() {
        commands.push(Command::new(Query::MarkLetters).with(late));
    }
    let letters = &plan.letters;
    if !letters.is_empty() {
        let marks = letters.iter().map(|one| mark_of(&one.status));
        let marks: Vec<Option<String>> = marks.collect::<Result<_>>()?;
        let ids: Vec<Uuid> = letters.iter().map(|one| one.op_id.0).collect();
        let statuses: Vec<i16> = letters.iter().map(|one| code(&one.status)).collect();
        let before = letters.iter().map(|one| i16::from(one.before.code()));
        let before: Vec<i16> = before.collect();
        let command = Command::new(Query::SetLetters).with(ids).with(statuses);
        commands.push(command.with(marks).with(before));
    }
    Ok(commands)
}
