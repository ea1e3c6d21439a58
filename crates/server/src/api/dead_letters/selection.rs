//! Which dead letters a request is about: a filter, narrowed to what the caller may touch, and pages
//! of it.

use clinch_core::ports::{Filter, LetterFilter, LetterOrder, LetterState, LetterView, PAGE_MAX};
use clinch_core::{BizKey, Domain, EventType, IdemKey, Invalid, OpId};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::api::app::App;
use crate::api::body::{self, INVALID_REQUEST, Members};
use crate::api::caller::Caller;
use crate::api::problem::Problem;
use crate::api::query::QueryParameters;
use crate::api::values::TimeValue;

/// Pages of the store that one request reads: a filter that finds few letters among many ends with
/// a cursor instead of holding the connection.
const PAGES_MAX: usize = 20;
/// Bytes of the digest of a filter in a cursor.
const DIGEST_BYTES: usize = 8;

/// Every field narrows the selection; `{}` selects every dead letter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterFilterDocument {
    /// These operations only.
    op_ids: Option<Vec<String>>,
    /// One more id, in addition to `op_ids`.
    op_id: Option<String>,
    /// This domain only.
    domain: Option<String>,
    /// This type of call only.
    event_type: Option<String>,
    /// This business key only.
    biz_key: Option<String>,
    /// This idempotency key only.
    idem_key: Option<String>,
    /// This code of the failure only.
    code: Option<String>,
    /// Errors of this fingerprint only, as grouping shows them.
    fingerprint: Option<String>,
    /// Failed at or after this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    from: Option<TimeValue>,
    /// Failed before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    to: Option<TimeValue>,
}

/// The dead letters of a request.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    op_ids: Option<Vec<OpId>>,
    filter: LetterFilter,
    /// The caller asks for a domain or an event type that it may not touch.
    is_nothing: bool,
}

/// One page of a selection.
pub(super) struct Selected {
    pub letters: Vec<LetterView>,
    pub next_cursor: Option<String>,
}

/// Whether the caller may see and change the letter.
pub(super) fn may_touch(caller: &Caller, letter: &LetterView) -> bool {
    let keys = &letter.keys;
    let allowed = caller.restriction();
    allowed.allows(keys.domain.as_str(), keys.event_type.as_str())
}

/// What is asked for, among what is allowed. `None`: nothing.
fn among<T: PartialEq + Clone>(asked: Option<T>, allowed: &[T]) -> Option<Vec<T>> {
    match asked {
        None => Some(allowed.to_vec()),
        Some(asked) if allowed.is_empty() || allowed.contains(&asked) => Some(vec![asked]),
        Some(_) => None,
    }
}

impl Selection {
    fn new(caller: &Caller, domain: Option<Domain>, event_type: Option<EventType>) -> Self {
        let allowed = caller.restriction();
        let domains = among(domain, &allowed.domains);
        let types = among(event_type, &allowed.event_types);
        let is_nothing = domains.is_none() || types.is_none();
        let filter = LetterFilter {
            domains: domains.unwrap_or_default(),
            event_types: types.unwrap_or_default(),
            ..LetterFilter::default()
        };
        Self {
            op_ids: None,
            filter,
            is_nothing,
        }
    }

    pub(super) fn of_query(caller: &Caller, query: &mut QueryParameters) -> Result<Self, Problem> {
        let domain = query.parsed("domain", Domain::new)?;
        let event_type = query.parsed("event_type", EventType::new)?;
        let mut selection = Self::new(caller, domain, event_type);
        let filter = &mut selection.filter;
        filter.state = match query.take("status").as_deref() {
            None => Some(LetterState::Open),
            Some("all") => None,
            Some(name) => {
                let mut known = LetterState::ALL.into_iter();
                let known = known.find(|state| state.name() == name);
                let refused = "status must be open, redriven, dismissed or all";
                Some(known.ok_or_else(|| Problem::request(refused).field("status"))?)
            }
        };
        filter.biz_key = query.parsed("biz_key", BizKey::new)?;
        filter.idem_key = query.parsed("idem_key", IdemKey::new)?;
        filter.code = query.take("code");
        filter.fingerprint = query.take("fingerprint");
        filter.from = query.time("from")?;
        filter.to = query.time("to")?;
        Ok(selection)
    }

    pub(super) fn of_body(caller: &Caller, filter: &RawValue) -> Result<Self, Problem> {
        let not_an_object = |_| {
            let problem = "must be an object that names no member twice; {} selects all";
            body::refuse(INVALID_REQUEST, "filter", problem)
        };
        let mut members = Members::parse(filter.get()).map_err(not_an_object)?;
        let document: LetterFilterDocument = members.take(INVALID_REQUEST)?;
        members.refuse_all_but(&[], INVALID_REQUEST)?;
        fn parsed<T>(
            text: Option<String>,
            parse: impl FnOnce(String) -> Result<T, Invalid>,
        ) -> Result<Option<T>, Problem> {
            let parsed = text.map(parse).transpose();
            parsed.map_err(|invalid| Problem::invalid(INVALID_REQUEST, &invalid))
        }
        let domain = parsed(document.domain, Domain::new)?;
        let event_type = parsed(document.event_type, EventType::new)?;
        let mut selection = Self::new(caller, domain, event_type);
        let filter = &mut selection.filter;
        filter.biz_key = parsed(document.biz_key, BizKey::new)?;
        filter.idem_key = parsed(document.idem_key, IdemKey::new)?;
        filter.code = document.code;
        filter.fingerprint = document.fingerprint;
        filter.from = document.from.map(|TimeValue(at)| at);
        filter.to = document.to.map(|TimeValue(at)| at);
        let not_a_uuid = |field| {
            move |_| body::refuse(INVALID_REQUEST, field, "must be the UUID of an operation")
        };
        let ids = document.op_ids.map(|ids| {
            let ids = ids
                .iter()
                .map(|id| id.parse().map_err(not_a_uuid("op_ids")));
            ids.collect::<Result<Vec<OpId>, Problem>>()
        });
        selection.op_ids = ids.transpose()?;
        if let Some(id) = document.op_id {
            let id = id.parse().map_err(not_a_uuid("op_id"))?;
            selection.op_ids.get_or_insert_default().push(id);
        }
        Ok(selection)
    }

    /// What the store is asked for; `None`: nothing matches.
    pub(super) fn filter(&self) -> Option<&LetterFilter> {
        (!self.is_nothing).then_some(&self.filter)
    }

    /// What a cursor belongs to, so that it continues no other selection.
    fn digest(&self, action: &str) -> String {
        let mut filter = self.filter.clone();
        filter.seq_max = None;
        let hash = Sha256::digest(format!("{action} {filter:?}").as_bytes());
        let bytes = hash.iter().take(DIGEST_BYTES);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

impl App {
    /// The next letters of a selection, in the order of acceptance: two letters of one lane come in
    /// the order of the lane, on one page and across pages. Letters of operations that are accepted
    /// after the first page are left out, so that paging ends even if every redrive fails at once.
    ///
    /// Letters that are named by id come whatever their status, all on one page.
    pub(super) async fn select(
        &self,
        selection: &Selection,
        action: &str,
        state: LetterState,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Selected, Problem> {
        if selection.is_nothing {
            let (letters, next_cursor) = (Vec::new(), None);
            return Ok(Selected {
                letters,
                next_cursor,
            });
        }
        let mut filter = selection.filter.clone();
        if let Some(ids) = &selection.op_ids {
            filter.state = None;
            return self.select_by_id(ids, &filter).await;
        }
        filter.state = Some(state);
        let digest = selection.digest(action);
        let (until, mut place) = match cursor {
            None => (self.newest_seq().await?, None),
            Some(cursor) => {
                let refused = "the cursor is not one of this request; start without one";
                let place = parse(cursor, &digest);
                let place = place.ok_or_else(|| Problem::request(refused).field("cursor"))?;
                (place.0, Some(place.1))
            }
        };
        filter.seq_max = Some(until);
        let mut letters = Vec::new();
        for _ in 0..PAGES_MAX {
            let wanted = PAGE_MAX.min(limit - letters.len());
            let page = self
                .recovery
                .dead_letters(&filter, LetterOrder::Accepted, place.as_deref(), wanted)
                .await?;
            letters.extend(page.items);
            place = page.next_cursor;
            if place.is_none() || letters.len() >= limit {
                break;
            }
        }
        let next_cursor = place.map(|place| format!("{digest}.{until}.{place}"));
        Ok(Selected {
            letters,
            next_cursor,
        })
    }

    async fn select_by_id(&self, ids: &[OpId], filter: &LetterFilter) -> Result<Selected, Problem> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut letters = Vec::new();
        for ids in ids.chunks(PAGE_MAX) {
            let found = self.recovery.letters(ids).await?.into_iter().flatten();
            letters.extend(found.filter(|letter| filter.matches(letter)));
        }
        letters.sort_by_key(|letter| (letter.seq, letter.op_id));
        Ok(Selected {
            letters,
            next_cursor: None,
        })
    }

    async fn newest_seq(&self) -> Result<u64, Problem> {
        let newest = self.inspect.list(&Filter::default(), None, 1).await?;
        Ok(newest.items.first().map_or(0, |operation| operation.seq))
    }
}

/// The last seq and the store's cursor.
fn parse(cursor: &str, digest: &str) -> Option<(u64, String)> {
    let rest = cursor.strip_prefix(digest)?.strip_prefix('.')?;
    let (until, place) = rest.split_once('.')?;
    Some((until.parse().ok()?, place.to_owned()))
}
