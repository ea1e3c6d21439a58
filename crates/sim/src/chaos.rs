//! What goes wrong, and the people who look at what is left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Amendment, Domains, Operation, Store, StoredOk};
use clinch_core::protocol::{Event, Phase, Resolution};
use clinch_core::{Domain, Fail, WorkerId};

use crate::machine::EPOCH_MS;
use crate::provider::Trouble;
use crate::scene::{FINAL_AFTER, KINDS, Scene};
use crate::world::OUTSIDE;

/// How bad the providers' day is, by the seed.
pub(crate) fn draw_trouble(scene: &Scene) -> Trouble {
    let world = &scene.world;
    let up_to = |max: u64| world.below(max + 1);
    Trouble {
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

/// Nothing goes wrong before.
pub(crate) const CALM: Duration = Duration::from_secs(5);

/// Everything is well again by then.
const HEALED: Duration = Duration::from_secs(360);

/// Breaks something every few seconds until `until`, then heals everything.
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
        scene.providers.set_trouble(Trouble::default());
        for kind in &KINDS {
            if let Ok(domain) = Domain::new(kind.domain) {
                // The reference does not fail by itself.
                let _ = scene.memory.set_paused(&domain, false).await;
            }
        }
        // Nodes that cannot start are a bug of the simulation: nothing would end.
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
            scene.weather.store_faults.store(faults, Ordering::SeqCst);
            let hints = world.below(200);
            scene.weather.hint_faults.store(hints, Ordering::SeqCst);
        }
        8 => fill_disk(scene, node),
        9 => outage(scene, Outage::StoreHangs),
        10 => outage(scene, Outage::BusHangs),
        11 => scene.providers.set_trouble(draw_trouble(scene)),
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

/// Told to stop, and started again once it is down.
fn stop(scene: &Arc<Scene>, node: usize) {
    scene.stop(node);
    later(scene, Duration::from_secs(35), move |scene| {
        scene.crash(node);
        // A node that does not start is missed at the end.
        let _ = scene.start(node);
    });
}

/// No answer and no dead letter can be put on disk for a while.
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

/// Often longer than a lease.
fn pause(scene: &Arc<Scene>, node: usize) {
    scene.world.note(format_args!("node {node} is paused"));
    scene.world.set_paused(Scene::place(node), true);
    let long = scene.world.chance(200);
    let after = scene.world.delay(if long { 240_000 } else { 45_000 });
    later(scene, after, move |scene| {
        scene.world.note(format_args!("node {node} goes on"));
        scene.world.set_paused(Scene::place(node), false);
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

/// What is out of reach, and how: calls fail, or do not come back.
#[derive(Debug, Clone, Copy)]
enum Outage {
    StoreDown,
    BusDown,
    StoreHangs,
    BusHangs,
}

fn outage(scene: &Arc<Scene>, outage: Outage) {
    let set = move |scene: &Arc<Scene>, on| {
        let weather = &scene.weather;
        let flag = match outage {
            Outage::StoreDown => &weather.store_down,
            Outage::BusDown => &weather.bus_down,
            Outage::StoreHangs => &weather.store_hangs,
            Outage::BusHangs => &weather.bus_hangs,
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
        let _ = scene_.memory.set_paused(&domain, true).await;
        scene_.world.sleep(scene_.world.delay(60_000)).await;
        let _ = scene_.memory.set_paused(&domain, false).await;
    };
    scene.world.spawn(OUTSIDE, Box::pin(task));
}

/// People look at held operations now and then. They tell the truth: they look at the
/// provider's books, and only when no call can still be on its way.
pub(crate) fn start_people(scene: &Arc<Scene>) {
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
            fail: Fail::new("given_up", "a person gave up (simulated)"),
            effect: None,
        },
    };
    world.note(format_args!(
        "a person says {resolution:?} of {}",
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
    // Refused if it is no longer held.
    let _ = scene.memory.amend(&[amendment], &routes()).await;
}

/// A worker may still hold the attempt and send: the lease it believes in has not ended.
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
