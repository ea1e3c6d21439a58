//! Dead letters: their lists, their status, and letters of earlier releases.

use std::collections::{BTreeMap, HashMap};

use clinch_core::ports::{
    COUNTERS, Counts, DeadLetter, LetterFilter, LetterOrder, LetterStatus, LetterView, Page,
};
use clinch_core::{Domain, Keys, OpId, Result, Timestamp};
use clinch_stored::commit::{Plan, Row, SeenLetter};
use clinch_stored::json;
use clinch_stored::letters::{self, Place, Search, Summary, imported, mark_of, read_mark};

use crate::Mysql;
use crate::column::Column;
use crate::error;
use crate::link::Script;
use crate::query::Query;
use crate::row::{self, WHOLE_COLUMNS};
use crate::text;
use crate::tx::Tx;
use crate::write::add_counts;

/// Letters of an earlier release that are completed in one transaction.
const COMPLETED_AT_ONCE: usize = 500;

fn read_letter(row: &mysql_async::Row) -> Result<LetterView> {
    let summary: Summary = json::read(row.bytes(11)?)?;
    Ok(LetterView {
        op_id: row.op_id(0)?,
        failed_at: row.moment(1)?,
        seq: row.count(2)?,
        keys: Keys {
            domain: row.domain(4)?,
            event_type: row.event_type(5)?,
            biz_key: row.text(6)?.parse().map_err(error::unreadable)?,
            idem_key: row.text(7)?.parse().map_err(error::unreadable)?,
        },
        fingerprint: row.text(8)?,
        status: read_mark(row.maybe_bytes(9)?)?,
        late_ok: row.int(10)? != 0,
        failure: summary.failure,
        attempts: summary.attempts,
    })
}

/// What decides about a change of a letter.
pub(crate) fn seen_letter(row: &mysql_async::Row) -> Result<SeenLetter> {
    Ok(SeenLetter {
        domain: row.domain(1)?,
        status: read_mark(row.maybe_bytes(2)?)?,
    })
}

/// A condition that says whether the filter selects a letter.
fn selected(filter: &LetterFilter) -> String {
    let mut all = vec!["TRUE".to_owned()];
    let names = |names: Vec<&str>| text::list(names);
    if !filter.domains.is_empty() {
        let domains = filter.domains.iter().map(|one| one.as_str()).collect();
        all.push(format!("l.domain IN ({})", names(domains)));
    }
    if !filter.event_types.is_empty() {
        let types = filter.event_types.iter().map(|one| one.as_str()).collect();
        all.push(format!("l.event_type IN ({})", names(types)));
    }
    let texts = [
        ("biz_key", filter.biz_key.as_ref().map(|key| key.as_str())),
        ("idem_key", filter.idem_key.as_ref().map(|key| key.as_str())),
        ("code", filter.code.as_deref()),
        ("fingerprint", filter.fingerprint.as_deref()),
    ];
    for (column, wanted) in texts {
        all.extend(wanted.map(|wanted| format!("l.{column} = {}", text::literal(wanted))));
    }
    let (from, to) = (filter.from, filter.to);
    all.extend(from.map(|from| format!("l.failed_at >= {}", from.as_millis())));
    all.extend(to.map(|to| format!("l.failed_at < {}", to.as_millis())));
    all.extend(filter.seq_max.map(|max| format!("l.seq <= {max}")));
    all.join(" AND ")
}

impl Mysql {
    pub(crate) async fn list_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        mut search: Search,
    ) -> Result<Page<LetterView>> {
        let (column, index) = match (order, filter.state) {
            (LetterOrder::Accepted, _) => ("seq", "by_seq"),
            (_, Some(_)) => ("failed_at", "by_status"),
            (_, None) => ("failed_at", "by_age"),
        };
        let is_newest = order == LetterOrder::NewestFirst;
        let (past, falling) = if is_newest { ("<", " DESC") } else { (">", "") };
        let until = if is_newest { ">" } else { "<" };
        let state = match filter.state {
            Some(state) => format!("l.status = {}", state.code()),
            None => "l.status IS NOT NULL".to_owned(),
        };
        let (key, op_id) = (search.after.key, search.after.op_id.0);
        let op_id = text::literal(op_id.as_bytes());
        let end = search.until;
        // Not a comparison of pairs, for which the index would be read from its beginning.
        let range = format!(
            "{state} AND l.{column} {past}= {key} AND l.{column} {until}= {end} \
             AND (l.{column} {past} {key} OR l.op_id {past} {op_id})"
        );
        let order_by = format!("l.{column}{falling}, l.op_id{falling}");
        let sql = Query::Letters.with(&[
            ("selected", &selected(filter)),
            ("index", index),
            ("range", &range),
            ("order", &order_by),
            ("limit", &search.rows().to_string()),
        ]);
        for row in self.query(sql).await? {
            let key = match order {
                LetterOrder::NewestFirst | LetterOrder::OldestFirst => row.int(1)?,
                LetterOrder::Accepted => row.int(2)?,
            };
            let op_id = row.op_id(0)?;
            let is_selected = row.int(3)? != 0;
            let letter = is_selected.then(|| read_letter(&row)).transpose()?;
            if !search.look(Place { key, op_id }, letter) {
                break;
            }
        }
        Ok(search.page())
    }

    pub(crate) async fn letters_by_id(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        let ids = text::list(ops.iter().map(|op| op.0.as_bytes()));
        let rows = self.query(Query::LettersById.with(&[("ids", &ids)]));
        let mut found = HashMap::new();
        for row in rows.await? {
            let letter = read_letter(&row)?;
            found.insert(letter.op_id, letter);
        }
        Ok(ops.iter().map(|op| found.get(op).cloned()).collect())
    }

    /// Completes letters that an earlier release has written.
    pub(crate) async fn complete_letters(&self) -> Result<()> {
        loop {
            let limit = COMPLETED_AT_ONCE.to_string();
            let sql = Query::IncompleteLetters.of_rows(true, &[("limit", &limit)]);
            let rows = self.query(sql).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let letters = rows.iter().map(earlier).collect::<Result<Vec<_>>>()?;
            self.write(letters, |tx, letters| {
                Box::pin(tx.complete_letters(letters))
            })
            .await?;
        }
    }
}

impl Tx<'_> {
    /// Imports letters; true where one was new.
    pub(crate) async fn import_letters(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        let mut script = Script::default();
        for letter in letters {
            let values = values_of(&imported(letter, 0), &json::to_bytes(letter)?)?;
            let values: Vec<_> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
            script.add(&Query::ImportLetter.with(&values));
        }
        let answers = self.run(script).await?;
        let new: Vec<bool> = answers.iter().map(|answer| answer.affected == 1).collect();
        let counted = letters.iter().zip(&new).filter(|(_, is_new)| **is_new);
        self.count_letters(counted.map(|(letter, _)| &letter.keys.domain), 1);
        Ok(new)
    }

    async fn complete_letters(&mut self, found: &[LetterView]) -> Result<()> {
        let mut script = Script::default();
        for letter in found {
            let summary = Summary {
                failure: letter.failure.clone(),
                attempts: letter.attempts,
            };
            let mut values = values_of(letter, &json::to_bytes(&summary)?)?;
            let mark = mark_of(&letter.status)?;
            values.push((
                "mark",
                mark.map_or_else(|| "NULL".to_owned(), text::literal),
            ));
            values.push(("status", letter.status.state().code().to_string()));
            values.push(("seq", letter.seq.to_string()));
            let values: Vec<_> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
            script.add(&Query::CompleteLetter.with(&values));
        }
        let answers = self.run(script).await?;
        // Another process may have completed some of them.
        let completed = found.iter().zip(&answers);
        let completed = completed.filter(|(_, answer)| answer.affected == 1);
        let open = completed.filter(|(letter, _)| letter.status == LetterStatus::Open);
        self.count_letters(open.map(|(letter, _)| &letter.keys.domain), 1);
        Ok(())
    }

    /// Takes the open letters of operations that are deleted out of the counters.
    pub(crate) async fn uncount_letters(&mut self, old: &[mysql_async::Row]) -> Result<()> {
        if old.is_empty() {
            return Ok(());
        }
        let ids = old
            .iter()
            .map(|columns| Ok(row::read_whole(columns)?.op_id.0.into_bytes()));
        let ids = text::list(ids.collect::<Result<Vec<_>>>()?);
        let rows = self
            .query(&Query::OpenLettersOf.with(&[("ids", &ids)]))
            .await?;
        let domains = rows.iter().map(|row| row.domain(0));
        let domains = domains.collect::<Result<Vec<Domain>>>()?;
        self.count_letters(domains.iter(), -1);
        Ok(())
    }

    fn count_letters<'d>(&mut self, domains: impl Iterator<Item = &'d Domain>, by: i64) {
        let mut counts: BTreeMap<&Domain, [i64; COUNTERS]> = BTreeMap::new();
        for domain in domains {
            counts.entry(domain).or_insert([0; COUNTERS])[Counts::DEAD_LETTERS_OPEN] += by;
        }
        add_counts(counts.into_iter(), &mut self.later);
    }
}

/// A letter of an earlier release: written out, or read from its operation.
fn earlier(columns: &mysql_async::Row) -> Result<LetterView> {
    let letter = columns.maybe_bytes(WHOLE_COLUMNS)?;
    let failed_at: Timestamp = columns.moment(WHOLE_COLUMNS + 1)?;
    // The columns of the operation are empty if there is none.
    let operation = row::read_whole(columns).ok();
    let redriven = operation.as_ref().and_then(|row| row.redriven_by);
    let status = redriven.map(|by| LetterStatus::Redriven { by });
    let view = match (letter, &operation) {
        (Some(letter), _) => {
            let seq = operation.as_ref().map_or(0, |row| row.seq);
            imported(&json::read(letter)?, seq)
        }
        (None, Some(row)) => letters::of(row, failed_at)?,
        (None, None) => return Err(error::corrupt("dead letter without an operation")),
    };
    Ok(LetterView {
        status: status.unwrap_or_default(),
        ..view
    })
}

/// The columns of a letter that never change.
fn values_of(letter: &LetterView, text: &[u8]) -> Result<Vec<(&'static str, String)>> {
    let keys = &letter.keys;
    Ok(vec![
        ("id", text::literal(letter.op_id.0.as_bytes())),
        ("at", letter.failed_at.as_millis().to_string()),
        ("letter", text::literal(text)),
        ("domain", text::literal(keys.domain.as_str())),
        ("event_type", text::literal(keys.event_type.as_str())),
        ("biz_key", text::literal(keys.biz_key.as_str())),
        ("idem_key", text::literal(keys.idem_key.as_str())),
        ("code", text::literal(&letter.failure.code)),
        ("fingerprint", text::literal(&letter.fingerprint)),
        ("late_ok", u8::from(letter.late_ok).to_string()),
    ])
}

/// Makes the letter of an operation that just ended.
pub(crate) fn add_letter(row: &Row, script: &mut Script) -> Result<()> {
    let summary = Summary::of(row);
    let fingerprint = summary.fingerprint(&row.domain, &row.event_type);
    let at = row.finished_at.unwrap_or_default();
    script.add(&Query::InsertDeadLetter.with(&[
        ("seq", &row.seq.to_string()),
        ("at", &at.as_millis().to_string()),
        ("letter", &text::literal(json::to_bytes(&summary)?)),
        ("domain", &text::literal(row.domain.as_str())),
        ("event_type", &text::literal(row.event_type.as_str())),
        ("code", &text::literal(&summary.failure.code)),
        ("fingerprint", &text::literal(fingerprint)),
    ]));
    Ok(())
}

/// Sets the status of the letters of a plan, after those that it makes.
pub(crate) fn add_changes(plan: &Plan, script: &mut Script) -> Result<()> {
    for write in &plan.letters {
        let mark = mark_of(&write.status)?;
        script.add(&Query::SetLetterStatus.with(&[
            ("id", &text::literal(write.op_id.0.as_bytes())),
            ("status", &write.status.state().code().to_string()),
            (
                "mark",
                &mark.map_or_else(|| "NULL".to_owned(), text::literal),
            ),
            ("was", &write.before.code().to_string()),
        ]));
    }
    Ok(())
}
