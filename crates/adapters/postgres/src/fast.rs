//! Accepting in one look and one statement.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation};
use clinch_core::protocol::LaneStand;
use clinch_core::{Error, ErrorKind, OpId, Result, Timestamp};
use futures_util::future::join3;
use uuid::Uuid;

use crate::Shared;
use crate::accept::{judge, lane_of, refuse_bad};
use crate::error;
use crate::flush;
use crate::keys::{Key, KnownKey, LookUp, key_of, look_up};
use crate::link::Link;
use crate::query::Query;
use crate::row::Row;
use crate::tx::Tx;

/// Looks of one call: each but the first because somebody else took the same keys meanwhile.
const LOOKS_MAX: usize = 8;

/// An operation on its way in: its place in the call and its key.
struct Offer<'a> {
    at: usize,
    new: &'a NewOperation,
    key: Key,
}

/// Nothing of it needs a lock: no lane, no batch, no predecessor, no key twice.
pub(crate) fn is_plain(new: &[NewOperation], routes: &Routes) -> bool {
    let mut keys = HashSet::with_capacity(new.len());
    new.iter().all(|new| {
        new.batch_id.is_none()
            && new.redrive_of.is_none()
            && lane_of(new, routes).is_none()
            && keys.insert(&new.keys)
    })
}

impl Shared {
    /// Takes plain operations in.
    pub(crate) async fn accept_plain(
        self: &Arc<Self>,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let mut answers: Vec<Option<Accepted>> = vec![None; new.len()];
        let offer = |(at, new): (usize, _)| Offer {
            at,
            new,
            key: key_of(&new.keys),
        };
        let mut offers: Vec<Offer<'_>> = new.iter().enumerate().map(offer).collect();
        for _ in 0..LOOKS_MAX {
            if offers.is_empty() {
                break;
            }
            self.take_in(&mut offers, &mut answers, routes).await?;
        }
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        answers.ok_or_else(|| {
            let message = "others take the same keys at the same time; try again";
            Error::new(ErrorKind::Conflict, message)
        })
    }

    /// One look and one statement; `offers` that are left were taken by others in between.
    async fn take_in(
        self: &Arc<Self>,
        offers: &mut Vec<Offer<'_>>,
        answers: &mut [Option<Accepted>],
        routes: &Routes,
    ) -> Result<()> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let mut tx = Tx::new(self, link);
        if tx.need_names(offers.iter().map(|offer| offer.new)).is_err() {
            let wanted = std::mem::take(&mut tx.wanted);
            drop(tx);
            drop(client);
            return self.make(wanted).await;
        }
        let (known, taken, now, paused) = look(&link, offers).await?;
        refuse(offers, &known, &taken)?;
        offers.retain(|offer| match known.get(&offer.key).cloned().flatten() {
            Some(found) => {
                answers[offer.at] = Some(judge(offer.new, found));
                false
            }
            None => true,
        });
        if offers.is_empty() {
            return Ok(());
        }
        tx.now = now;
        let rows = rows(&mut tx, offers, &paused, routes)?;
        let Some(written) = insert(&link, offers, &rows).await? else {
            return Ok(());
        };
        for row in &rows {
            tx.tell(row, row.place(LaneStand::Unordered, now));
        }
        let fresh = std::mem::take(&mut tx.fresh);
        drop(tx);
        drop(client);
        self.committed(fresh, now);
        for (offer, row) in offers.iter().zip(rows) {
            if let Some(seq) = written.get(&offer.new.op_id) {
                let (seq, state) = (*seq, Box::new(row.state));
                answers[offer.at] = Some(Accepted::New { seq, state });
            }
        }
        offers.retain(|offer| answers[offer.at].is_none());
        Ok(())
    }
}

/// What is known of the offers, the ids that are taken, the time, and paused domains.
type Look = (
    HashMap<Key, Option<KnownKey>>,
    HashSet<OpId>,
    Timestamp,
    HashSet<i32>,
);

async fn look(link: &Link<'_>, offers: &[Offer<'_>]) -> Result<Look> {
    let keys: Vec<Key> = offers.iter().map(|offer| offer.key).collect();
    let ops: Vec<Uuid> = offers.iter().map(|offer| offer.new.op_id.0).collect();
    let begins = offers.iter().any(|offer| offer.new.begin.is_some());
    let paused = async {
        match begins {
            true => link.query(Query::Paused, &[]).await,
            false => Ok(Vec::new()),
        }
    };
    let found = look_up(link, &keys, &ops);
    let (found, now, paused) = join3(found, link.query(Query::Now, &[]), paused).await;
    let found = found.map_err(LookUp::error)?;
    let now = now?.first().map_or(0, |row| row.get(0));
    let taken = found.iter().map(|(_, known)| known.known.op_id).collect();
    let known = found.into_iter().map(|(key, known)| (key, Some(known)));
    let paused = paused?.iter().map(|row| row.get(0)).collect();
    Ok((known.collect(), taken, Timestamp::from_millis(now), paused))
}

fn refuse(
    offers: &[Offer<'_>],
    known: &HashMap<Key, Option<KnownKey>>,
    taken: &HashSet<OpId>,
) -> Result<()> {
    let offers = offers.iter().map(|offer| (offer.new, &offer.key));
    refuse_bad(offers, known, taken)
}

/// The rows of the offers, begun where that is wished and allowed.
fn rows(
    tx: &mut Tx<'_>,
    offers: &[Offer<'_>],
    paused: &HashSet<i32>,
    routes: &Routes,
) -> Result<Vec<Row>> {
    let mut rows = Vec::with_capacity(offers.len());
    for offer in offers {
        let mut row = tx.new_row(offer.new, None, routes)?;
        tx.note(&mut row, "Accept", None, None, "", None)?;
        if let Some(begin) = &offer.new.begin {
            let paused = paused.contains(&row.stream.domain_id);
            let stand = LaneStand::Unordered;
            tx.begin_if_called(&mut row, begin, paused, stand, routes)?;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Their places; `None`: somebody took one of the keys since the look.
async fn insert(
    link: &Link<'_>,
    offers: &[Offer<'_>],
    rows: &[Row],
) -> Result<Option<HashMap<OpId, u64>>> {
    let mut keys = Vec::with_capacity(offers.len());
    for offer in offers {
        let print = offer.new.fingerprints.first().copied();
        keys.push((
            offer.key,
            print.ok_or_else(|| error::corrupt("fingerprint"))?,
        ));
    }
    let now = rows.first().map(|row| row.accepted_at).unwrap_or_default();
    let place = |row| (row, Row::place(row, LaneStand::Unordered, now));
    let placed: Vec<_> = rows.iter().map(place).collect();
    let write = flush::accept(&placed, &keys, true)?;
    let written = match write.run(link).await {
        Ok(written) => written,
        Err(failed) if error::asks_again(&failed) => return Ok(None),
        Err(failed) => return Err(error::commit(failed)),
    };
    let seq = |row: &tokio_postgres::Row| -> Result<_> {
        Ok((OpId(row.get(0)), crate::row::count(row.get(1))?))
    };
    let places: Result<HashMap<_, _>> = written.iter().map(seq).collect();
    places.map(Some)
}
