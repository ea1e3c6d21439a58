//! The faults of a history, and the operators who look at held operations.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Amendment, Domains, LetterAction, LetterChange, NewPause, Operation, Store, StoredOk, Write,
};
use clinch_core::protocol::{Event, Phase, Resolution};
use clinch_core::{Domain, Fail, OpId, Status, WorkerId};

use crate::machine::EPOCH_MS;
use crate::provider::ProviderFaults;
use crate::scene::{FINAL_AFTER, KINDS, Scene};
use crate::world::OUTSIDE;

/// How often the providers fail, by the seed.
pub(crate) fn draw_provider_faults(scene: &Scene) -> ProviderFaults {
    let world = &scene.world;
    let up_to = |max: u64| world.below(max + 1);
    ProviderFaults {
        lost_requests: up_to(120),
        lost_answers: up_to(200),
        refusals: up_to(150),
        clean_retries: up_to(250),
        slow: up_to(60),
        panics: up_to(40),
        not_called: up_to(200),
        doubts: up_to(400),
    }
}

/// Nothing fails before this time.
pub(crate) const CALM: Duration = Duration::from_secs(5);

/// Everything works again by this time.
const HEALED: Duration = Duration::from_secs(360);

/// Injects a fault every few seconds until `until`, then heals everything.
pub(crate) fn start(scene: &Arc<Scene>, until: Duration) {
    let scene = scene.clone();
    let world = scene.world.clone();
    let task = async move {
        let world = scene.world.clone();
        world.sleep(CALM).await;
        while world.now() < until {
            world.sleep(world.delay(15_000)).await;
            strike(&scene);
        }
        world.sleep(Duration::from_secs(30)).await;
        scene.providers.set_trouble(ProviderFaults::default());
        for kind in &KINDS {
            if let Ok(domain) = Domain::new(kind.domain) {
                // The reference store does not fail by itself.
                let _ = scene.memory.resume(&domain).await;
            }
        }
        // If a node does not start, the simulation has a bug, and the history would not end.
        let _ = scene.heal();
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

fn strike(scene: &Arc<Scene>) {
    let world = &scene.world;
    let node = world.below(scene.node_count() as u64) as usize;
    match world.below(13) {
        0 => crash(scene, node),
        1 => stop(scene, node),
        2 | 3 => pause(scene, node),
        4 => step_clock(scene, node),
        5 => outage(scene, Outage::StoreDown),
        6 => outage(scene, Outage::BusDown),
        7 => {
            let faults = world.below(80);
            world.note(format_args!("{faults} of 1,000 store calls fail, twice"));
            scene
                .network_faults
                .store_faults
                .store(faults, Ordering::SeqCst);
            let hints = world.below(200);
            scene
                .network_faults
                .hint_faults
                .store(hints, Ordering::SeqCst);
        }
        8 => fill_disk(scene, node),
        9 => outage(scene, Outage::StoreHangs),
        10 => outage(scene, Outage::BusHangs),
        11 => scene.providers.set_trouble(draw_provider_faults(scene)),
        _ => pause_domain(scene),
    }
}

fn later(scene: &Arc<Scene>, after: Duration, then: impl FnOnce(&Arc<Scene>) + Send + 'static) {
    let scene = scene.clone();
    let world = scene.world.clone();
    let task = async move {
        scene.world.sleep(after).await;
        then(&scene);
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

fn crash(scene: &Arc<Scene>, node: usize) {
    scene.crash(node);
    later(scene, scene.world.delay(30_000), move |scene| {
        let _ = scene.start(node);
    });
}

/// Tells a node to stop, and starts it again once it is down.
fn stop(scene: &Arc<Scene>, node: usize) {
    scene.stop(node);
    later(scene, Duration::from_secs(35), move |scene| {
        scene.crash(node);
        // The check at the end notices a node that did not start.
        let _ = scene.start(node);
    });
}

/// No answer and no dead letter can be written to disk for a while.
fn fill_disk(scene: &Arc<Scene>, node: usize) {
    let set = move |scene: &Arc<Scene>, full| {
        scene.machine(node, |machine| {
            machine.spill.full.store(full, Ordering::SeqCst);
            machine.dead_letters.full.store(full, Ordering::SeqCst);
        });
    };
    set(scene, true);
    later(scene, scene.world.delay(60_000), move |scene| {
        set(scene, false)
    });
}

/// Pauses a node, often for longer than a lease.
fn pause(scene: &Arc<Scene>, node: usize) {
    scene.world.note(format_args!("node {node} is paused"));
    scene.world.set_paused(Scene::host(node), true);
    let long = scene.world.chance(200);
    let after = scene.world.delay(if long { 240_000 } else { 45_000 });
    later(scene, after, move |scene| {
        scene.world.note(format_args!("node {node} goes on"));
        scene.world.set_paused(Scene::host(node), false);
    });
}

fn step_clock(scene: &Arc<Scene>, node: usize) {
    const HOUR_MS: i64 = 3_600_000;
    let step = if scene.world.chance(500) {
        HOUR_MS
    } else {
        -HOUR_MS
    };
    scene.world.note(format_args!(
        "the wall clock of node {node} steps by {step} ms"
    ));
    scene.machine(node, |machine| {
        machine.clock.skew_ms.fetch_add(step, Ordering::SeqCst);
    });
}

/// What cannot be reached, and how: calls fail, or do not return.
#[derive(Debug, Clone, Copy)]
enum Outage {
    StoreDown,
    BusDown,
    StoreHangs,
    BusHangs,
}

fn outage(scene: &Arc<Scene>, outage: Outage) {
    let set = move |scene: &Arc<Scene>, on| {
        let network_faults = &scene.network_faults;
        let flag = match outage {
            Outage::StoreDown => &network_faults.store_down,
            Outage::BusDown => &network_faults.bus_down,
            Outage::StoreHangs => &network_faults.store_hangs,
            Outage::BusHangs => &network_faults.bus_hangs,
        };
        scene.world.note(format_args!("{outage:?}: {on}"));
        flag.store(on, Ordering::SeqCst);
    };
    set(scene, true);
    let long = scene.world.chance(200);
    let after = scene.world.delay(if long { 180_000 } else { 15_000 });
    later(scene, after, move |scene| set(scene, false));
}

fn pause_domain(scene: &Arc<Scene>) {
    let kind = &KINDS[scene.world.below(KINDS.len() as u64) as usize];
    let Ok(domain) = Domain::new(kind.domain) else {
        return;
    };
    let scene_ = scene.clone();
    let task = async move {
        let _ = scene_.memory.pause(&domain, &NewPause::default()).await;
        scene_.world.sleep(scene_.world.delay(60_000)).await;
        let _ = scene_.memory.resume(&domain).await;
    };
    scene.world.spawn(OUTSIDE, Box::pin(task));
}

/// Operators look at held operations now and then. They tell the truth: they read the provider's
/// books, and only when no call can still be in flight.
pub(crate) fn start_operators(scene: &Arc<Scene>) {
    const ROUND: Duration = Duration::from_secs(150);
    let scene = scene.clone();
    let world = scene.world.clone();
    let task = async move {
        loop {
            scene.world.sleep(ROUND).await;
            let held = held(&scene);
            for operation in held {
                resolve(&scene, &operation).await;
            }
            dismiss(&scene).await;
        }
    };
    world.spawn(OUTSIDE, Box::pin(task));
}

fn held(scene: &Scene) -> Vec<Operation> {
    scene.memory.edit(|tables| {
        let rows = tables.rows.iter().map(|(_, row)| &row.operation);
        rows.filter(|op| op.state.phase == Some(Phase::Held))
            .cloned()
            .collect()
    })
}

/// Dismisses some of the dead letters, and opens some of the dismissed ones again.
async fn dismiss(scene: &Scene) {
    let world = &scene.world;
    let failed = scene.memory.edit(|tables| {
        let rows = tables.rows.iter().map(|(_, row)| &row.operation);
        let failed = rows.filter(|op| op.state.status == Status::Failed);
        failed.map(|op| op.op_id).collect::<Vec<OpId>>()
    });
    let Ok(by) = WorkerId::new("a-person") else {
        return;
    };
    for op_id in failed {
        if !world.chance(50) {
            continue;
        }
        let action = match world.chance(300) {
            true => LetterAction::Reopen,
            false => LetterAction::Dismiss,
        };
        let change = Write::Letter(LetterChange {
            op_id,
            action,
            by: by.clone(),
            reason: "known (simulated)".into(),
        });
        // Refused if the operation has no letter, or one in another state.
        let _ = scene.memory.commit(&[change], &routes()).await;
    }
}

async fn resolve(scene: &Scene, operation: &Operation) {
    let world = &scene.world;
    let stuck = operation
        .state
        .hold
        .as_ref()
        .is_some_and(|h| h.probe_at.is_none());
    let curious = world.now() < HEALED && world.chance(50);
    if !stuck && !curious {
        return;
    }
    let record = scene.providers.record(operation.outbound_key.as_str());
    let last_sent = record
        .sent
        .iter()
        .map(|sent| sent.at)
        .max()
        .unwrap_or_default();
    if world.now() < last_sent + FINAL_AFTER || running(scene, operation) {
        return;
    }
    let applied = !record.applied.is_empty();
    let resolution = match world.below(2) {
        _ if applied => Resolution::Completed,
        0 => Resolution::Retry,
        _ => Resolution::Failed {
            fail: Fail::new("given_up", "an operator gave up (simulated)"),
            effect: None,
        },
    };
    world.note(format_args!(
        "an operator says {resolution:?} of {}",
        operation.op_id
    ));
    let Ok(by) = WorkerId::new("a-person") else {
        return;
    };
    let amendment = Amendment {
        op_id: operation.op_id,
        event: Event::Resolve(resolution),
        ok: applied.then(StoredOk::default),
        checkpoint: None,
        by,
        reason: "looked at the provider's books (simulated)".into(),
        attempt_id: None,
    };
    // Refused if the operation is no longer held.
    let resolve = [Write::Amend(amendment)];
    let _ = scene.memory.commit(&resolve, &routes()).await;
}

/// Whether a worker may still hold the attempt and send: the lease that it believes in has not
/// ended.
fn running(scene: &Scene, operation: &Operation) -> bool {
    let real = EPOCH_MS + scene.world.now().as_millis() as i64;
    let until = operation.state.call_deadline.map_or(0, |at| at.as_millis());
    real < until + FINAL_AFTER.as_millis() as i64
}

fn routes() -> Routes {
    let mut routes = Routes::new();
    for kind in &KINDS {
        if let Ok(domain) = Domain::new(kind.domain) {
            routes = routes.with(domain, clinch_core::policy::EventTypes::Any, kind.rules());
        }
    }
    routes
}
