//! Locks.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::WorkerId;
use clinch_core::ports::{LockManager, Tenure};

use crate::case::{Case, Failure, Stage, Verdict};
use crate::concurrent::together;
use crate::fixtures::{secs, worker};
use crate::{Control, Subject};

pub(super) const CASES: &[Case] = area!(
    "locks",
    Locks {
        one_of_concurrent_takers_gets_it: ["RUN-7", "COL-7"],
        somebody_elses_lock_is_not_taken: ["RUN-7"],
        taking_it_again_moves_its_end: ["RUN-7"],
        a_lock_whose_time_ran_out_can_be_taken: ["RUN-7", "COL-7"],
        the_fence_grows_with_every_new_owner: ["RUN-7"],
        only_its_owner_releases_it: ["RUN-7", "COL-7"],
        a_released_lock_can_be_taken: ["RUN-7"],
        an_owner_whose_time_ran_out_releases_nothing: ["RUN-7"],
        locks_have_names: [],
    }
);

const TTL: Duration = secs(30);

#[derive(Clone)]
struct Locks {
    locks: Arc<dyn LockManager>,
    control: Arc<dyn Control>,
}

impl Stage for Locks {
    fn open(subject: Subject) -> Verdict<Self> {
        let Some(locks) = subject.locks else {
            return Err(Failure::new(
                "the capabilities promise locks; there are none",
            ));
        };
        Ok(Self {
            locks,
            control: subject.control,
        })
    }
}

impl Locks {
    async fn take(&self, owner: usize) -> Verdict<Option<Tenure>> {
        Ok(self.locks.take("job", &worker(owner)?, TTL).await?)
    }

    async fn taken(&self, owner: usize) -> Verdict<u64> {
        let tenure = self.take(owner).await?;
        let fence = tenure.map(|tenure| tenure.fence);
        fence.ok_or_else(|| Failure::new(format!("worker {owner} did not get a free lock")))
    }

    async fn release(&self, owner: usize) -> Verdict<bool> {
        Ok(self.locks.release("job", &worker(owner)?).await?)
    }
}

async fn one_of_concurrent_takers_gets_it(l: Locks) -> Verdict {
    for round in 0..10 {
        let name = format!("job-{round}");
        let taken = together(32, |number| {
            let (l, name) = (l.clone(), name.clone());
            async move {
                let owner: WorkerId = worker(number)?;
                Ok(l.locks.take(&name, &owner, TTL).await?.is_some())
            }
        })
        .await?;
        let winners = taken.iter().filter(|taken| **taken).count();
        ensure_eq!(winners, 1, "takers that got the lock");
    }
    Ok(())
}

async fn somebody_elses_lock_is_not_taken(l: Locks) -> Verdict {
    l.taken(1).await?;
    ensure_eq!(l.take(2).await?, None, "somebody else's lock");
    l.control.advance(TTL - secs(5)).await;
    ensure_eq!(l.take(2).await?, None, "shortly before its end");
    Ok(())
}

async fn taking_it_again_moves_its_end(l: Locks) -> Verdict {
    let first = l.taken(1).await?;
    for _ in 0..3 {
        l.control.advance(secs(20)).await;
        ensure_eq!(l.taken(1).await?, first, "the fence of an owner that stays");
        ensure_eq!(l.take(2).await?, None, "nobody else gets it");
    }
    Ok(())
}

async fn a_lock_whose_time_ran_out_can_be_taken(l: Locks) -> Verdict {
    let first = l.taken(1).await?;
    l.control.advance(TTL + secs(1)).await;
    let second = l.taken(2).await?;
    ensure!(second > first, "fence {second} came after {first}");
    ensure_eq!(l.take(1).await?, None, "the first owner lost it");
    Ok(())
}

async fn the_fence_grows_with_every_new_owner(l: Locks) -> Verdict {
    let mut last = 0;
    for round in 0..6 {
        let fence = l.taken(round % 2).await?;
        ensure!(fence > last, "fence {fence} came after {last}");
        last = fence;
        if round < 3 {
            ensure!(l.release(round % 2).await?, "the owner releases its lock");
        } else {
            l.control.advance(TTL + secs(1)).await;
        }
    }
    Ok(())
}

async fn only_its_owner_releases_it(l: Locks) -> Verdict {
    l.taken(1).await?;
    ensure_eq!(l.release(2).await?, false, "a release by somebody else");
    ensure_eq!(l.take(2).await?, None, "it is still held");
    ensure_eq!(l.release(1).await?, true, "a release by its owner");
    ensure_eq!(l.release(1).await?, false, "a second release");
    Ok(())
}

async fn a_released_lock_can_be_taken(l: Locks) -> Verdict {
    l.taken(1).await?;
    l.release(1).await?;
    l.taken(2).await?;
    Ok(())
}

async fn an_owner_whose_time_ran_out_releases_nothing(l: Locks) -> Verdict {
    l.taken(1).await?;
    l.control.advance(TTL + secs(1)).await;
    l.taken(2).await?;
    ensure_eq!(l.release(1).await?, false, "a release by the former owner");
    ensure_eq!(l.take(3).await?, None, "the new owner still has it");
    Ok(())
}

async fn locks_have_names(l: Locks) -> Verdict {
    l.taken(1).await?;
    let other = l.locks.take("other", &worker(2)?, TTL).await?;
    ensure!(other.is_some(), "another lock is free");
    Ok(())
}
