//! Operations that ended FAILED other than by cancel, and trying them again.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use clinch::engine::Redriven;
use clinch_core::ports::{DeadLetter, Operation, Restriction};
use clinch_core::{Failure, Keys, OpId, Status, Timestamp, code};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, op_id};
use super::caller::Caller;
use super::document::{FailureDocument, failure};
use super::fields::Fields;
use super::problem::{Problem, ProblemDocument};
use super::query::Pairs;
use super::time;

/// Letters that one request looks at, and that one redrive takes.
const LOOK_MAX: usize = 10_000;
/// Letters of one read of the store.
const PAGE: usize = 1_000;
/// Rows of operations that are read at once, with all that is in them.
const ROWS: usize = 16;
/// Redrives of one commit, whose payloads are all read for it.
const COMMIT_MAX: usize = 64;

/// An operation that ended FAILED other than by cancel. Its payload stays in the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterDocument {
    op_id: String,
    domain: String,
    event_type: String,
    biz_key: String,
    idem_key: String,
    failure: FailureDocument,
    attempts: u32,
    failed_at: String,
    /// A late answer says that the call was applied: it is not redriven.
    late_ok: bool,
    /// The same for errors that look alike.
    fingerprint: String,
}

/// One page.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterPage {
    dead_letters: Vec<LetterDocument>,
    next_cursor: Option<String>,
}

/// Letters that look alike.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroup {
    fingerprint: String,
    domain: String,
    event_type: String,
    code: String,
    /// Of the newest.
    message: String,
    count: u64,
    first_failed_at: String,
    last_failed_at: String,
    /// The newest.
    example_op_id: String,
}

/// Letters by what they look like, the most frequent first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroups {
    groups: Vec<LetterGroup>,
    /// There are more letters than were looked at.
    truncated: bool,
}

/// A page, or groups with `group=true`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum LetterListing {
    Page(LetterPage),
    Groups(LetterGroups),
}

/// Which letters, and whether to do it.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveDocument {
    filter: LetterFilterDocument,
    /// True unless said: answer the plan and do nothing.
    dry_run: Option<bool>,
}

/// Every field narrows; `{}` is all.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterFilterDocument {
    op_ids: Option<Vec<String>>,
    domain: Option<String>,
    event_type: Option<String>,
    biz_key: Option<String>,
    idem_key: Option<String>,
    code: Option<String>,
    fingerprint: Option<String>,
    /// Failed at or after.
    #[schema(format = DateTime)]
    from: Option<String>,
    /// Failed before.
    #[schema(format = DateTime)]
    to: Option<String>,
}

/// What a redrive did or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveResults {
    dry_run: bool,
    matched: usize,
    /// New operations.
    redriven: usize,
    /// Redriven before.
    already: usize,
    refused: usize,
    /// More letters match than one call takes: call again.
    truncated: bool,
    results: Vec<RedriveResult>,
}

/// What became, or would become, of one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveResult {
    op_id: String,
    /// redrive, already or refused.
    verdict: &'static str,
    redriven_by: Option<String>,
    reason: Option<&'static str>,
}

#[derive(Debug, Default)]
struct LetterFilter {
    /// What the caller may touch.
    allowed: Restriction,
    op_ids: Option<Vec<OpId>>,
    names: Vec<(TextOf, String)>,
    fingerprint: Option<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

/// A dead letter without its payload: what is looked at may be many times a page.
struct Letter {
    op_id: OpId,
    keys: Keys,
    failure: Failure,
    attempts: u32,
    failed_at: Timestamp,
    late_ok: bool,
}

impl From<DeadLetter> for Letter {
    fn from(letter: DeadLetter) -> Self {
        Self {
            op_id: letter.op_id,
            keys: letter.keys,
            failure: letter.failure,
            attempts: letter.attempts,
            failed_at: letter.failed_at,
            late_ok: letter.late_ok,
        }
    }
}

type TextOf = fn(&Letter) -> &str;

/// By which texts letters can be chosen.
const NAMES: [(&str, TextOf); 5] = [
    ("domain", |letter| letter.keys.domain.as_str()),
    ("event_type", |letter| letter.keys.event_type.as_str()),
    ("biz_key", |letter| letter.keys.biz_key.as_str()),
    ("idem_key", |letter| letter.keys.idem_key.as_str()),
    ("code", |letter| letter.failure.code.as_str()),
];

impl LetterFilter {
    fn of_query(caller: &Caller, query: &mut Pairs) -> Result<Self, Problem> {
        let names = NAMES
            .iter()
            .filter_map(|(name, of)| Some((*of, query.take(name)?)));
        Ok(Self {
            allowed: caller.restriction().clone(),
            names: names.collect(),
            op_ids: None,
            fingerprint: query.take("fingerprint"),
            from: query.time("from")?,
            to: query.time("to")?,
        })
    }

    fn of_body(caller: &Caller, mut fields: Fields<'_>) -> Result<Self, Problem> {
        let mut filter = Self {
            allowed: caller.restriction().clone(),
            ..Self::default()
        };
        for (name, of) in NAMES {
            let value = fields.text(name)?;
            filter.names.extend(value.map(|value| (of, value)));
        }
        if let Some(ids) = fields.texts("op_ids")? {
            let ids: Result<_, _> = ids.iter().map(|id| id.parse()).collect();
            let ids = ids.map_err(|_| fields.refuse("op_ids", "holds what is not a UUID"))?;
            filter.op_ids = Some(ids);
        }
        if let Some(id) = fields.text("op_id")? {
            let id = id
                .parse()
                .map_err(|_| fields.refuse("op_id", "is not a UUID"))?;
            filter.op_ids.get_or_insert_default().push(id);
        }
        filter.fingerprint = fields.text("fingerprint")?;
        filter.from = fields.time("from")?;
        filter.to = fields.time("to")?;
        fields.finish()?;
        Ok(filter)
    }

    fn matches(&self, letter: &Letter) -> bool {
        let ids = self.op_ids.as_ref();
        let (domain, event_type) = (&letter.keys.domain, &letter.keys.event_type);
        self.allowed.allows(domain.as_str(), event_type.as_str())
            && self.names.iter().all(|(of, wanted)| of(letter) == wanted)
            && ids.is_none_or(|ids| ids.contains(&letter.op_id))
            && self.from.is_none_or(|from| letter.failed_at >= from)
            && self.to.is_none_or(|to| letter.failed_at < to)
            && self
                .fingerprint
                .as_ref()
                .is_none_or(|print| *print == fingerprint(letter))
    }
}

/// Numbers and quoted parts differ from letter to letter of the same error.
fn fingerprint(letter: &Letter) -> String {
    let mut plain = String::new();
    for c in letter.failure.message.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !plain.ends_with('#') {
            plain.push(c);
        }
    }
    let keys = &letter.keys;
    let parts = [
        keys.domain.as_str(),
        keys.event_type.as_str(),
        &letter.failure.code,
        &plain,
    ];
    let hash = Sha256::digest(parts.join("\u{0}").as_bytes());
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn document(letter: &Letter) -> LetterDocument {
    LetterDocument {
        op_id: letter.op_id.to_string(),
        domain: letter.keys.domain.to_string(),
        event_type: letter.keys.event_type.to_string(),
        biz_key: letter.keys.biz_key.to_string(),
        idem_key: letter.keys.idem_key.to_string(),
        failure: failure(&letter.failure),
        attempts: letter.attempts,
        failed_at: time::write(letter.failed_at),
        late_ok: letter.late_ok,
        fingerprint: fingerprint(letter),
    }
}

/// The row of a dead letter, as one.
fn letter_of(row: Operation) -> Option<Letter> {
    let failure = row.state.failure.clone()?;
    let dead = row.state.status == Status::Failed && failure.code != code::CANCELED;
    dead.then(|| Letter {
        op_id: row.op_id,
        attempts: row.state.attempts,
        failed_at: row.finished_at.unwrap_or(row.accepted_at),
        late_ok: row.state.late_ok,
        keys: row.keys,
        failure,
    })
}

impl App {
    /// Letters that match, newest first, and whether there are more than are looked at.
    async fn letters(&self, filter: &LetterFilter) -> Result<(Vec<Letter>, bool), Problem> {
        let mut found = Vec::new();
        if let Some(ids) = filter.op_ids.as_ref() {
            for ids in ids.chunks(ROWS) {
                let rows = self.inspect.get(ids).await?.into_iter().flatten();
                let letters = rows.filter_map(letter_of);
                found.extend(letters.filter(|letter| filter.matches(letter)));
            }
            if found.len() == ids.len() {
                return Ok((found, false));
            }
            // Some may have come out of the backup file, without their operation.
            found.clear();
        }
        let mut cursor = None;
        let mut looked_at = 0;
        loop {
            let page = self.recovery.dead_letters(cursor.as_deref(), PAGE).await?;
            looked_at += page.items.len();
            let letters = page.items.into_iter().map(Letter::from);
            found.extend(letters.filter(|letter| filter.matches(letter)));
            match page.next_cursor {
                Some(_) if looked_at >= LOOK_MAX => return Ok((found, true)),
                Some(next) => cursor = Some(next),
                None => return Ok((found, false)),
            }
        }
    }
}

#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters",
    params(
        ("domain" = Option<String>, Query), ("event_type" = Option<String>, Query),
        ("biz_key" = Option<String>, Query), ("idem_key" = Option<String>, Query),
        ("code" = Option<String>, Query), ("fingerprint" = Option<String>, Query),
        ("from" = Option<String>, Query), ("to" = Option<String>, Query),
        ("group" = Option<bool>, Query, description = "By error fingerprint"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, body = LetterListing, description = "Newest first; with group=true by fingerprint"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let group = query.flag("group")?;
    let limit = query.limit()?;
    let mut cursor = query.take("cursor");
    let filter = LetterFilter::of_query(&caller, &mut query)?;
    query.finish()?;
    if group {
        return groups(&app, &filter).await;
    }
    let mut letters = Vec::new();
    let mut looked_at = 0;
    // A filter may pass over whole pages; a page of the answer is full or the last.
    loop {
        let wanted = limit - letters.len();
        let page = app.recovery.dead_letters(cursor.as_deref(), wanted).await?;
        looked_at += page.items.len();
        let read = page.items.into_iter().map(Letter::from);
        let read = read.filter(|letter| filter.matches(letter));
        letters.extend(read.map(|letter| document(&letter)));
        cursor = page.next_cursor;
        let enough = letters.len() >= limit || looked_at >= LOOK_MAX;
        if cursor.is_none() || enough {
            break;
        }
    }
    let page = LetterPage {
        dead_letters: letters,
        next_cursor: cursor,
    };
    json(StatusCode::OK, &LetterListing::Page(page))
}

async fn groups(app: &App, filter: &LetterFilter) -> Answer {
    let (letters, truncated) = app.letters(filter).await?;
    let mut groups: BTreeMap<String, LetterGroup> = BTreeMap::new();
    for letter in &letters {
        let print = fingerprint(letter);
        let failed_at = time::write(letter.failed_at);
        // Letters come newest first.
        let group = groups.entry(print.clone()).or_insert_with(|| LetterGroup {
            fingerprint: print,
            domain: letter.keys.domain.to_string(),
            event_type: letter.keys.event_type.to_string(),
            code: letter.failure.code.clone(),
            message: letter.failure.message.clone(),
            count: 0,
            first_failed_at: failed_at.clone(),
            last_failed_at: failed_at.clone(),
            example_op_id: letter.op_id.to_string(),
        });
        group.count += 1;
        group.first_failed_at = failed_at;
    }
    let mut groups: Vec<LetterGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let groups = LetterGroups { groups, truncated };
    json(StatusCode::OK, &LetterListing::Groups(groups))
}

#[utoipa::path(get, path = "/v1/dead-letters/{op_id}", tag = "dead letters",
    params(("op_id" = String, Path)),
    responses(
        (status = 200, body = LetterDocument, description = "The dead letter"),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
    ))]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let id = op_id(&id)?;
    let filter = LetterFilter {
        allowed: caller.restriction().clone(),
        op_ids: Some(vec![id]),
        ..LetterFilter::default()
    };
    let (letters, _) = app.letters(&filter).await?;
    let letter = letters.first();
    let letter = letter.ok_or_else(|| Problem::not_found("there is no such dead letter"))?;
    json(StatusCode::OK, &document(letter))
}

#[utoipa::path(post, path = "/v1/dead-letters/redrive", tag = "dead letters",
    request_body = RedriveDocument,
    responses(
        (status = 200, body = RedriveResults, description = "The plan, or what was done"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn redrive(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let dry_run = fields.flag("dry_run")?.unwrap_or(true);
    let filter = fields.object("filter")?;
    let filter = filter.ok_or_else(|| fields.refuse("filter", "is missing; {} is all"))?;
    let filter = LetterFilter::of_body(&caller, filter)?;
    fields.finish()?;
    let (letters, truncated) = app.letters(&filter).await?;
    let ops: Vec<OpId> = letters.iter().map(|letter| letter.op_id).collect();
    let mut results = Vec::with_capacity(ops.len());
    for ops in ops.chunks(COMMIT_MAX) {
        let verdicts = app.orchestrator().redrive(ops, dry_run).await?;
        results.extend(
            ops.iter()
                .zip(verdicts)
                .map(|(id, verdict)| result(*id, &verdict)),
        );
    }
    let count = |verdict: &str| results.iter().filter(|one| one.verdict == verdict).count();
    let results = RedriveResults {
        dry_run,
        matched: results.len(),
        redriven: count("redrive"),
        already: count("already"),
        refused: count("refused"),
        truncated,
        results,
    };
    json(StatusCode::OK, &results)
}

fn result(id: OpId, verdict: &Redriven) -> RedriveResult {
    let (verdict, by, reason) = match verdict {
        Redriven::New(by) => ("redrive", *by, None),
        Redriven::Before(by) => ("already", Some(*by), None),
        Redriven::Refused(reason) => ("refused", None, Some(*reason)),
    };
    RedriveResult {
        op_id: id.to_string(),
        verdict,
        redriven_by: by.map(|by| by.to_string()),
        reason,
    }
}
