//! Dead letters: operations that ended FAILED other than by cancel, and their redrive.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use clinch_core::ports::{DeadLetter, Operation, Restriction};
use clinch_core::{Failure, Keys, OpId, Status, Timestamp, code};
use clinch_engine::Redriven;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, op_id};
use super::body::{self, INVALID_REQUEST, Members};
use super::caller::Caller;
use super::document::{FailureDocument, failure};
use super::problem::{Problem, ProblemDocument};
use super::query::QueryParameters;
use super::time;
use super::values::TimeValue;

/// Dead letters that one request reads, and that one redrive takes.
const LOOK_MAX: usize = 10_000;
/// Dead letters of one read of the store.
const PAGE: usize = 1_000;
/// Operations that are read at once: each row comes with its payload and its result.
const ROWS: usize = 16;
/// Redrives of one commit: the commit reads the payload of each.
const COMMIT_MAX: usize = 64;

/// An operation that ended FAILED other than by cancel, without its payload.
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
    /// A late answer says that the call was applied: the operation is not redriven.
    late_ok: bool,
    /// The same for errors that differ only in numbers.
    fingerprint: String,
}

/// One page.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterPage {
    dead_letters: Vec<LetterDocument>,
    next_cursor: Option<String>,
}

/// Dead letters with the same fingerprint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroup {
    fingerprint: String,
    domain: String,
    event_type: String,
    code: String,
    /// The message of the newest dead letter.
    message: String,
    count: u64,
    first_failed_at: String,
    last_failed_at: String,
    /// The newest dead letter.
    example_op_id: String,
}

/// Dead letters by fingerprint, the most frequent first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroups {
    groups: Vec<LetterGroup>,
    /// There are more dead letters than one request reads.
    truncated: bool,
}

/// A page, or groups with `group=true`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum LetterListing {
    Page(LetterPage),
    Groups(LetterGroups),
}

/// Which dead letters to redrive, and whether to do it or only to plan it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveDocument<'a> {
    #[serde(borrow)]
    #[schema(value_type = LetterFilterDocument)]
    filter: &'a RawValue,
    /// By default true: answer the plan and change nothing.
    dry_run: Option<bool>,
}

/// Every field narrows the selection; `{}` selects every dead letter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterFilterDocument {
    op_ids: Option<Vec<String>>,
    /// One more id, in addition to `op_ids`.
    op_id: Option<String>,
    domain: Option<String>,
    event_type: Option<String>,
    biz_key: Option<String>,
    idem_key: Option<String>,
    code: Option<String>,
    fingerprint: Option<String>,
    /// Failed at or after this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    from: Option<TimeValue>,
    /// Failed before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    to: Option<TimeValue>,
}

/// What a redrive did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveResults {
    dry_run: bool,
    matched: usize,
    /// Operations that were created.
    redriven: usize,
    /// Dead letters that were redriven before.
    already: usize,
    refused: usize,
    /// More dead letters match than one request takes: send it again.
    truncated: bool,
    results: Vec<RedriveResult>,
}

/// What the redrive of one dead letter did, or would do.
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

/// A dead letter without its payload: one request may read many pages of them.
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

/// The texts by which dead letters can be filtered.
const NAMES: [(&str, TextOf); 5] = [
    ("domain", |letter| letter.keys.domain.as_str()),
    ("event_type", |letter| letter.keys.event_type.as_str()),
    ("biz_key", |letter| letter.keys.biz_key.as_str()),
    ("idem_key", |letter| letter.keys.idem_key.as_str()),
    ("code", |letter| letter.failure.code.as_str()),
];

impl LetterFilter {
    fn of_query(caller: &Caller, query: &mut QueryParameters) -> Result<Self, Problem> {
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

    fn of_body(caller: &Caller, filter: &RawValue) -> Result<Self, Problem> {
        let not_an_object = |_| {
            let problem = "must be an object that names no member twice; {} selects all";
            body::refuse(INVALID_REQUEST, "filter", problem)
        };
        let mut members = Members::parse(filter.get()).map_err(not_an_object)?;
        let document: LetterFilterDocument = members.take(INVALID_REQUEST)?;
        members.refuse_all_but(&[], INVALID_REQUEST)?;
        let not_a_uuid = |field| {
            move |_| body::refuse(INVALID_REQUEST, field, "must be the UUID of an operation")
        };
        let mut op_ids = document
            .op_ids
            .map(|ids| {
                let ids = ids
                    .iter()
                    .map(|id| id.parse().map_err(not_a_uuid("op_ids")));
                ids.collect::<Result<Vec<OpId>, Problem>>()
            })
            .transpose()?;
        if let Some(id) = document.op_id {
            let id = id.parse().map_err(not_a_uuid("op_id"))?;
            op_ids.get_or_insert_default().push(id);
        }
        let texts = [
            document.domain,
            document.event_type,
            document.biz_key,
            document.idem_key,
            document.code,
        ];
        let names = NAMES.into_iter().zip(texts);
        Ok(Self {
            allowed: caller.restriction().clone(),
            op_ids,
            names: names
                .filter_map(|((_, of), text)| Some((of, text?)))
                .collect(),
            fingerprint: document.fingerprint,
            from: document.from.map(|TimeValue(at)| at),
            to: document.to.map(|TimeValue(at)| at),
        })
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

/// Messages of the same error differ in their numbers.
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

/// The operation as a dead letter, if it is one.
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
    /// Matching dead letters, newest first, and whether there are more than one request reads.
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
            // A dead letter may come from the backup file, without a row of its operation.
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
        ("group" = Option<bool>, Query, description = "Group by error fingerprint"),
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
    let mut query = QueryParameters::new(pairs)?;
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
    // The filter may drop whole pages of the store: the answer is full, or it is the last.
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
        // Dead letters come newest first.
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
        (status = 200, body = RedriveResults, description = "The plan, or the result"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn redrive(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    let document: RedriveDocument<'_> = body::read(&text, INVALID_REQUEST)?;
    let dry_run = document.dry_run.unwrap_or(true);
    let filter = LetterFilter::of_body(&caller, document.filter)?;
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
