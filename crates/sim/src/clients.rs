//! Clients: they submit, repeat and cancel, and remember what they were told.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::{
    Actor, BatchId, Command, ErrorKind, Keys, OpId, OperationHandle, Result, Status, TimeBudget,
    Timestamp,
};
use clinch_engine::Orchestrator;
use tokio::sync::oneshot;

use crate::chaos::CALM;
use crate::machine::EPOCH_MS;
use crate::scene::{KINDS, Scene, command};
use crate::world::OUTSIDE;

/// What clients were told, in order.
#[derive(Default)]
pub(crate) struct Log {
    entries: Mutex<Vec<Told>>,
    /// The same keys with another payload were taken for the same request.
    pub(crate) wrong_replays: AtomicUsize,
    /// Answers that came later than the budget allows, in simulated time.
    pub(crate) late_answers: AtomicUsize,
    pub(crate) unfinished: AtomicUsize,
}

/// What a client was told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) keys: Keys,
    pub(crate) op_id: OpId,
    pub(crate) status: Status,
}

impl Log {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Vec<Told>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every acknowledged operation, by its keys.
    pub(crate) fn acknowledged(&self) -> BTreeMap<Keys, Vec<Told>> {
        let mut by_keys: BTreeMap<Keys, Vec<Told>> = BTreeMap::new();
        for told in self.entries().iter() {
            by_keys
                .entry(told.keys.clone())
                .or_default()
                .push(told.clone());
        }
        by_keys
    }
}

/// Before any fault: an operation that is not due yet cannot settle within the budget, so its
/// caller must get a 202 when the budget ends (CORE-8).
pub(crate) fn start_calm(scene: &Arc<Scene>, log: &Arc<Log>) {
    let Ok(mut command) = command("natural", "calm", "calm", "{}") else {
        return;
    };
    let now = Timestamp::from_millis(EPOCH_MS) + scene.world.now();
    command.options.run_at = Some(now + Duration::from_secs(60));
    log.unfinished.fetch_add(1, Ordering::SeqCst);
    let (scene, log) = (scene.clone(), log.clone());
    let world = scene.world.clone();
    let task = async move {
        let budget = Duration::from_secs(1);
        let told = call(&scene, command, budget).await;
        let in_time = scene.world.now() < CALM;
        let open = told.is_some_and(|told| told.is_ok_and(|told| !told.completed_fast()));
        if !in_time || !open {
            log.late_answers.fetch_add(1, Ordering::SeqCst);
        }
        log.unfinished.fetch_sub(1, Ordering::SeqCst);
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

/// Starts one client that submits `count` commands and follows each to its end.
pub(crate) fn start(scene: &Arc<Scene>, log: &Arc<Log>, client: usize, count: usize) {
    log.unfinished.fetch_add(1, Ordering::SeqCst);
    let (scene, log) = (scene.clone(), log.clone());
    let world = scene.world.clone();
    let task = async move {
        for number in 0..count {
            scene.world.sleep(scene.world.delay(20_000)).await;
            if let Some(command) = draw_command(&scene, client, number) {
                submit(&scene, &log, command).await;
            }
        }
        log.unfinished.fetch_sub(1, Ordering::SeqCst);
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

fn draw_command(scene: &Scene, client: usize, number: usize) -> Option<Command> {
    let world = &scene.world;
    let kind = &KINDS[world.below(KINDS.len() as u64) as usize];
    let biz_key = format!("order-{}", world.below(3));
    let idem_key = format!("c{client}-{number}");
    let mut command = command(kind.domain, &biz_key, &idem_key, "{\"amount\":5}").ok()?;
    let real_now = Timestamp::from_millis(EPOCH_MS) + world.now();
    if world.chance(100) {
        command.options.run_at = Some(real_now + world.delay(120_000));
    }
    if world.chance(100) {
        // A deadline before `run_at` would be refused.
        let from = command.options.run_at.unwrap_or(real_now);
        let later = world.delay(180_000) + Duration::from_millis(1);
        command.options.deadline = Some(from + later);
    }
    Some(command)
}

/// Submits until a node accepts. Then perhaps submits again, submits another payload, asks for the
/// next attempt now, or cancels.
async fn submit(scene: &Arc<Scene>, log: &Arc<Log>, command: Command) {
    let world = &scene.world;
    let twice = world.chance(150);
    if twice {
        let (scene, log, same) = (scene.clone(), log.clone(), command.clone());
        log.unfinished.fetch_add(1, Ordering::SeqCst);
        let task = async move {
            insist(&scene, &log, &same).await;
            log.unfinished.fetch_sub(1, Ordering::SeqCst);
        };
        world.spawn(OUTSIDE, Box::pin(task));
    }
    let op_id = insist(scene, log, &command).await;
    if world.chance(50) {
        submit_other_payload(scene, log, &command).await;
    }
    if world.chance(150) {
        world.sleep(world.delay(60_000)).await;
        amend(scene, op_id, Wish::RetryNow);
    }
    if world.chance(200) {
        world.sleep(world.delay(30_000)).await;
        amend(scene, op_id, Wish::Cancel);
    }
}

/// Tries node after node until one answers. The same keys make it the same operation.
async fn insist(scene: &Arc<Scene>, log: &Arc<Log>, command: &Command) -> OpId {
    let world = &scene.world;
    loop {
        let budget = Duration::from_millis(world.below(3_000));
        if let Some(Ok(handle)) = call(scene, command.clone(), budget).await {
            log.entries().push(Told {
                keys: command.keys.clone(),
                op_id: handle.op_id,
                status: handle.status,
            });
            return handle.op_id;
        }
        world.sleep(world.delay(3_000)).await;
    }
}

async fn submit_other_payload(scene: &Arc<Scene>, log: &Arc<Log>, command: &Command) {
    let keys = &command.keys;
    let (domain, biz_key) = (keys.domain.as_str(), keys.biz_key.as_str());
    let other = super::scene::command(domain, biz_key, keys.idem_key.as_str(), "{\"amount\":6}");
    let Ok(other) = other else { return };
    match call(scene, other, Duration::ZERO).await {
        Some(Ok(_)) => {
            log.wrong_replays.fetch_add(1, Ordering::SeqCst);
        }
        Some(Err(error)) => debug_assert_ne!(error.kind(), ErrorKind::Internal),
        None => {}
    }
}

/// One call to a random node that is up. `None`: it was down, or crashed before it answered.
async fn call(
    scene: &Arc<Scene>,
    command: Command,
    budget: Duration,
) -> Option<Result<OperationHandle>> {
    let index = scene.world.below(scene.node_count() as u64) as usize;
    let orchestrator = scene.orchestrator(index)?;
    let (reply, answer) = oneshot::channel();
    // Some callers disconnect in the middle: an accepted operation must continue without them.
    let world = scene.world.clone();
    let hangs_up = world.now() > CALM && world.chance(100);
    let hangs_up = hangs_up.then(|| world.delay(300));
    let task = async move {
        let start = orchestrator.start(command, TimeBudget::new(budget));
        let handle = match hangs_up {
            Some(after) => tokio::select! {
                biased;
                handle = start => handle,
                () = world.sleep(after) => return,
            },
            None => start.await,
        };
        // The client may have given up.
        let _ = reply.send(handle);
    };
    scene.world.spawn(Scene::host(index), Box::pin(task));
    answer.await.ok()
}

/// Starts one client that submits a batch, in parts, and seals it.
pub(crate) fn start_batch(scene: &Arc<Scene>, log: &Arc<Log>) {
    log.unfinished.fetch_add(1, Ordering::SeqCst);
    let (scene, log) = (scene.clone(), log.clone());
    let world = scene.world.clone();
    let task = async move {
        let batch_id = BatchId(uuid::Uuid::from_u64_pair(scene.world.draw(), 1));
        let told = command("natural", "batches", &format!("batch-{batch_id}"), "{}");
        let domains = ["keyed", "parent", "unsafe", "lane"];
        let member = |number: usize| {
            let idem_key = format!("member-{number}");
            command(domains[number % domains.len()], "batch", &idem_key, "{}")
        };
        let members: Vec<Command> = (0..8).filter_map(|n| member(n).ok()).collect();
        let (first, second) = members.split_at(3);
        if let Ok(told) = told {
            retry(&scene, |to| {
                let told = told.clone();
                async move { to.open_batch_as(batch_id, Some(told)).await }
            })
            .await;
            for part in [first, second] {
                retry(&scene, |to| {
                    let part = part.to_vec();
                    async move { to.submit_to_batch(batch_id, part).await.map(|_| ()) }
                })
                .await;
            }
            retry(&scene, |to| async move {
                to.seal_batch(batch_id).await.map(|_| ())
            })
            .await;
        }
        log.unfinished.fetch_sub(1, Ordering::SeqCst);
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

/// Asks node after node until one succeeds.
async fn retry<F>(scene: &Arc<Scene>, call: impl Fn(Orchestrator) -> F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    loop {
        let index = scene.world.below(scene.node_count() as u64) as usize;
        if let Some(orchestrator) = scene.orchestrator(index) {
            let (reply, answer) = oneshot::channel();
            let work = call(orchestrator);
            let task = async move {
                // The client may have given up.
                let _ = reply.send(work.await);
            };
            scene.world.spawn(Scene::host(index), Box::pin(task));
            if answer.await.is_ok_and(|done| done.is_ok()) {
                return;
            }
        }
        scene.world.sleep(scene.world.delay(3_000)).await;
    }
}

/// What a client wants of an operation that was accepted.
#[derive(Clone, Copy)]
enum Wish {
    RetryNow,
    Cancel,
}

fn amend(scene: &Arc<Scene>, op_id: OpId, wish: Wish) {
    let index = scene.world.below(scene.node_count() as u64) as usize;
    let Some(orchestrator) = scene.orchestrator(index) else {
        return;
    };
    let task = async move {
        let (by, reason) = (Actor::local(), "a wish (simulated)");
        // The operation may not be in a state for it, or the store may be down: then nothing
        // happened.
        let _ = match wish {
            Wish::RetryNow => orchestrator.retry_now(op_id, &by, reason).await,
            Wish::Cancel => orchestrator.cancel(op_id, &by, reason).await,
        };
    };
    scene.world.spawn(Scene::host(index), Box::pin(task));
}
