//! Scripted histories in the same simulated world, one promise each.

mod hanging;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch_core::ports::{Domains, NewPause, Operation, Recovery};
use clinch_core::protocol::Phase;
use clinch_core::{Command, Domain, OperationHandle, Status, TimeBudget, Timestamp};

use crate::machine::EPOCH_MS;
use crate::network::NetworkFaults;
use crate::provider::ProviderFaults;
use crate::scene::{Scene, command};
use crate::world::{OUTSIDE, World};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

fn scene(seed: u64, hints: bool, nodes: usize) -> Arc<Scene> {
    let world = World::new(seed, false);
    let scene = Scene::new(world, NetworkFaults::fair(), hints, nodes, None);
    for index in 0..nodes {
        scene.start(index).expect("the node starts");
    }
    scene
}

fn charge(domain: &str) -> Command {
    command(domain, "order-1", "key-1", "{\"amount\":5}").expect("a valid command")
}

type Answer = Arc<Mutex<Option<OperationHandle>>>;

/// Submits to a node, which may crash before it answers.
fn submit(scene: &Arc<Scene>, node: usize, command: Command, budget: Duration) -> Answer {
    let answer = Answer::default();
    let orchestrator = scene.orchestrator(node).expect("the node is up");
    let slot = answer.clone();
    let task = async move {
        let handle = orchestrator.start(command, TimeBudget::new(budget)).await;
        *slot.lock().expect("not poisoned") = handle.ok();
    };
    scene.world.spawn(Scene::host(node), Box::pin(task));
    answer
}

/// The only operation.
fn only(scene: &Scene) -> Option<Operation> {
    scene.memory.edit(|tables| {
        let row = tables.rows.iter().next();
        row.map(|(_, row)| row.operation.clone())
    })
}

fn status(scene: &Scene) -> Option<Status> {
    only(scene).map(|operation| operation.state.status)
}

fn calls(scene: &Scene) -> usize {
    scene
        .providers
        .records()
        .values()
        .map(|record| record.sent.len())
        .sum()
}

fn run_for(scene: &Scene, time: Duration) {
    let until = scene.world.now() + time;
    scene.world.run(until, || false);
}

fn run_until(scene: &Scene, within: Duration, done: impl Fn() -> bool) {
    let until = scene.world.now() + within;
    assert!(
        scene.world.run(until, done),
        "not reached within {within:?}"
    );
}

/// CORE-8: an operation that settles within the budget is answered at once, after one attempt.
#[test]
fn core_8_a_settled_start_is_answered_with_its_result() {
    let scene = scene(1, false, 1);
    let answer = submit(&scene, 0, charge("keyed"), Duration::from_secs(30));
    run_until(&scene, MINUTE, || {
        answer.lock().expect("not poisoned").is_some()
    });
    let handle = answer
        .lock()
        .expect("not poisoned")
        .clone()
        .expect("answered");
    assert!(handle.completed_fast());
    assert_eq!(handle.status, Status::Completed);
    assert_eq!((calls(&scene), handle.replayed), (1, false));
}

/// CORE-8: the budget ends first; the caller gets a 202, and the work continues.
#[test]
fn core_8_the_budget_ends_first_and_the_work_goes_on() {
    let scene = scene(2, false, 1);
    let slow = ProviderFaults {
        slow: 1_000,
        ..ProviderFaults::default()
    };
    scene.providers.set_trouble(slow);
    let answer = submit(&scene, 0, charge("natural"), Duration::from_millis(200));
    run_until(&scene, MINUTE, || {
        answer.lock().expect("not poisoned").is_some()
    });
    let handle = answer
        .lock()
        .expect("not poisoned")
        .clone()
        .expect("answered");
    assert!(!handle.completed_fast());
    assert!(scene.world.now() < Duration::from_secs(1));
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
}

fn lose_the_worker_after_it_called(scene: &Arc<Scene>, domain: &str) {
    let _ = submit(scene, 0, charge(domain), Duration::ZERO);
    run_until(scene, MINUTE, || calls(scene) == 1);
    scene.crash(0);
}

/// RUN-6: an unsafe call whose worker was killed is never repeated; a probe that finds the charge
/// completes the operation.
#[test]
fn run_6_a_probe_that_finds_the_charge_completes_it() {
    for hints in [false, true] {
        let scene = scene(3, hints, 2);
        lose_the_worker_after_it_called(&scene, "asked");
        run_until(&scene, MINUTE, || {
            let held = only(&scene).and_then(|operation| operation.state.phase);
            held == Some(Phase::Held)
        });
        run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
        run_for(&scene, HOUR);
        assert_eq!(calls(&scene), 1, "it was not called again");
    }
}

/// RUN-6: without `not_found_final_after` a NotFound proves nothing: the operation stays held, for
/// an operator.
#[test]
fn run_6_a_not_found_that_is_not_final_stays_held() {
    let scene = scene(4, false, 2);
    let lost = ProviderFaults {
        lost_requests: 1_000,
        ..ProviderFaults::default()
    };
    scene.providers.set_trouble(lost);
    lose_the_worker_after_it_called(&scene, "asked");
    run_for(&scene, 24 * HOUR);
    let operation = only(&scene).expect("it is there");
    assert_eq!(operation.state.phase, Some(Phase::Held));
    assert_eq!(calls(&scene), 1, "it was not called again");
}

/// A provider is never asked twice for its answer: the store is down for an hour after the
/// provider's Ok.
#[test]
fn an_answer_outlives_an_hour_without_the_store() {
    for domain in ["keyed", "natural", "unsafe", "blind"] {
        let scene = scene(5, false, 1);
        let _ = submit(&scene, 0, charge(domain), Duration::ZERO);
        run_until(&scene, MINUTE, || calls(&scene) == 1);
        scene
            .network_faults
            .store_down
            .store(true, Ordering::SeqCst);
        run_for(&scene, HOUR);
        assert_eq!(
            scene.machine(0, |machine| machine.spill.len()),
            1,
            "{domain}"
        );
        assert_ne!(status(&scene), Some(Status::Completed), "{domain}");
        scene
            .network_faults
            .store_down
            .store(false, Ordering::SeqCst);
        run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
        run_for(&scene, HOUR);
        assert_eq!(calls(&scene), 1, "{domain}: one call");
        assert_eq!(
            scene.machine(0, |machine| machine.spill.len()),
            0,
            "{domain}"
        );
    }
}

/// The spill file outlives its process.
#[test]
fn an_answer_outlives_its_process() {
    let scene = scene(6, false, 1);
    let _ = submit(&scene, 0, charge("blind"), Duration::ZERO);
    run_until(&scene, MINUTE, || calls(&scene) == 1);
    scene
        .network_faults
        .store_down
        .store(true, Ordering::SeqCst);
    run_for(&scene, HOUR);
    scene.crash(0);
    scene
        .network_faults
        .store_down
        .store(false, Ordering::SeqCst);
    scene.start(0).expect("it starts again");
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
    assert_eq!(calls(&scene), 1);
}

/// A record that cannot be read is kept and raises one alert. It delays neither the answers after
/// it nor recovery.
#[test]
fn an_unreadable_record_is_kept_and_holds_up_nobody() {
    let scene = scene(12, false, 1);
    let spill = scene.machine(0, |machine| machine.spill.clone());
    let task = async move {
        let unreadable = b"not an answer".to_vec();
        clinch_core::ports::Journal::append(spill.as_ref(), &[unreadable])
            .await
            .expect("room");
    };
    scene.world.spawn(0, Box::pin(task));
    let _ = submit(&scene, 0, charge("blind"), Duration::ZERO);
    run_until(&scene, MINUTE, || calls(&scene) == 1);
    scene
        .network_faults
        .store_down
        .store(true, Ordering::SeqCst);
    run_for(&scene, HOUR);
    scene
        .network_faults
        .store_down
        .store(false, Ordering::SeqCst);
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
    run_for(&scene, HOUR);
    assert_eq!((calls(&scene), pages(&scene, "spill_stuck")), (1, 1));
    assert_eq!(
        scene.machine(0, |machine| machine.spill.len()),
        2,
        "both are kept"
    );
}

fn refuse_without_a_store(scene: &Arc<Scene>) {
    let refuses = ProviderFaults {
        refusals: 1_000,
        ..ProviderFaults::default()
    };
    scene.providers.set_trouble(refuses);
    let _ = submit(scene, 0, charge("unsafe"), Duration::ZERO);
    run_until(scene, MINUTE, || calls(scene) == 1);
    scene
        .network_faults
        .store_down
        .store(true, Ordering::SeqCst);
}

fn pages(scene: &Scene, code: &str) -> usize {
    let notes = scene.pager.notes();
    notes.iter().filter(|note| note.code == code).count()
}

fn import(scene: &Arc<Scene>) -> usize {
    let runtime = scene.runtime(0).expect("the node is up");
    let imported = Arc::new(Mutex::new(None));
    let slot = imported.clone();
    let task = async move {
        let imported = runtime
            .import_dead_letters()
            .await
            .expect("the store is up");
        *slot.lock().expect("not poisoned") = Some(imported.new);
    };
    scene.world.spawn(Scene::host(0), Box::pin(task));
    run_until(scene, MINUTE, || {
        imported.lock().expect("not poisoned").is_some()
    });
    imported
        .lock()
        .expect("not poisoned")
        .take()
        .unwrap_or_default()
}

fn dead_letters(scene: &Scene) -> usize {
    scene.memory.edit(|tables| tables.dead_letters.len())
}

/// OUT-6: if the store is down, the dead letter goes to the file. However often the file is read
/// back, it makes one dead letter.
#[test]
fn out_6_a_dead_letter_goes_to_the_file_and_comes_back_once() {
    let scene = scene(7, false, 1);
    refuse_without_a_store(&scene);
    run_for(&scene, 5 * MINUTE);
    assert_eq!(scene.machine(0, |machine| machine.dead_letters.len()), 1);
    assert_eq!(
        (dead_letters(&scene), pages(&scene, "dead_letter_at_risk")),
        (0, 0)
    );
    // Before the row itself can end: the store is up only for the import.
    scene.crash(0);
    scene
        .network_faults
        .store_down
        .store(false, Ordering::SeqCst);
    scene.start(0).expect("it starts again");
    let first = import(&scene);
    let again = import(&scene);
    run_until(&scene, HOUR, || dead_letters(&scene) == 1);
    assert!(first <= 1 && again == 0);
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Failed));
    assert_eq!((dead_letters(&scene), import(&scene)), (1, 0));
    assert_eq!(calls(&scene), 1);
}

/// OUT-6: if the disk is full as well, an alert is raised, and the answer is not dropped.
#[test]
fn out_6_a_full_disk_pages_someone() {
    let scene = scene(8, false, 1);
    scene.machine(0, |machine| {
        machine.spill.full.store(true, Ordering::SeqCst);
        machine.dead_letters.full.store(true, Ordering::SeqCst);
    });
    refuse_without_a_store(&scene);
    run_for(&scene, 5 * MINUTE);
    assert!(pages(&scene, "answer_at_risk") > 0);
    scene.machine(0, |machine| {
        machine.spill.full.store(false, Ordering::SeqCst)
    });
    run_until(&scene, HOUR, || pages(&scene, "dead_letter_at_risk") == 1);
    scene
        .network_faults
        .store_down
        .store(false, Ordering::SeqCst);
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Failed));
    assert_eq!(dead_letters(&scene), 1);
}

/// RUN-9: scans that panic do not stop accept and execute; recovery restarts by itself.
#[test]
fn run_9_runners_fail_and_restart_alone() {
    let scene = scene(9, false, 1);
    scene
        .network_faults
        .scans_panic
        .store(true, Ordering::SeqCst);
    run_for(&scene, MINUTE);
    let _ = submit(&scene, 0, charge("natural"), Duration::ZERO);
    run_until(&scene, MINUTE, || status(&scene) == Some(Status::Completed));
    // No node begins the operation before its deadline.
    let pausing = scene.clone();
    let pause = async move {
        let natural = Domain::new("natural").expect("a name");
        let paused = pausing.memory.pause(&natural, &NewPause::default()).await;
        paused.expect("the reference does not fail by itself");
    };
    scene.world.spawn(OUTSIDE, Box::pin(pause));
    run_for(&scene, Duration::from_secs(1));
    let mut overdue = command("natural", "order-2", "key-2", "{}").expect("valid");
    let now = Timestamp::from_millis(EPOCH_MS) + scene.world.now();
    overdue.options.deadline = Some(now + MINUTE);
    let _ = submit(&scene, 0, overdue, Duration::ZERO);
    let open = || scene.memory.edit(|tables| tables.slots.len());
    run_for(&scene, 10 * MINUTE);
    assert!(open() > 0, "no overdue operation ends while scans panic");
    scene
        .network_faults
        .scans_panic
        .store(false, Ordering::SeqCst);
    run_until(&scene, 10 * MINUTE, || open() == 0);
}

/// COL-13: more than 10,000 waiting runners (1,112 nodes), 10,000 delayed operations and 10,000
/// callers that wait for them. With a fallback of two hours, an idle hour makes no calls at all.
#[test]
fn col_13_an_idle_hour_costs_nothing() {
    for hints in [false, true] {
        assert_eq!(calls_of_an_idle_hour(hints, 1_112, 2 * HOUR), 0);
    }
}

/// COL-13: with the default fallback, an idle hour costs only the fallback polls.
#[test]
fn col_13_the_fallback_is_all_that_an_idle_hour_costs() {
    for hints in [false, true] {
        let (nodes, fallback) = (10, Duration::from_secs(5));
        let calls = calls_of_an_idle_hour(hints, nodes, fallback);
        // Eight runners poll, each with two calls at most, and the listener reads the rows of its
        // 1,000 waiters.
        let looks = (HOUR.as_secs() / fallback.as_secs()) * (2 * 8 + 1);
        // Operations without a route are counted every five minutes.
        let undeclared = HOUR.as_secs() / 300;
        let bound = nodes as u64 * (looks + undeclared);
        assert!(
            calls > 0 && calls <= bound,
            "{calls} calls, {bound} allowed"
        );
    }
}

fn calls_of_an_idle_hour(hints: bool, nodes: usize, fallback: Duration) -> u64 {
    let scene = Scene::new(
        World::new(10, false),
        NetworkFaults::fair(),
        hints,
        nodes,
        None,
    );
    *scene.fallback.lock().expect("not poisoned") = Some(fallback);
    for index in 0..nodes {
        scene.start(index).expect("the node starts");
    }
    let now = Timestamp::from_millis(EPOCH_MS) + scene.world.now();
    for number in 0..10_000 {
        let key = format!("key-{number}");
        let mut later = command("natural", "order", &key, "{}").expect("valid");
        later.options.run_at = Some(now + 5 * HOUR);
        later.options.deadline = Some(now + 9 * HOUR);
        wait_for_hours(&scene, number % nodes, later).expect("the node is up");
    }
    run_for(&scene, 2 * MINUTE);
    let before = scene.network_faults.calls.load(Ordering::SeqCst);
    run_for(&scene, HOUR);
    scene.network_faults.calls.load(Ordering::SeqCst) - before
}

fn wait_for_hours(scene: &Arc<Scene>, node: usize, command: Command) -> Option<()> {
    let orchestrator = scene.orchestrator(node)?;
    let task = async move {
        let accepted = orchestrator.submit(vec![command]).await;
        let op_id = accepted.ok().and_then(|all| all.into_iter().next()?.ok());
        if let Some(known) = op_id {
            let _ = orchestrator.await_settled(known.op_id, 4 * HOUR).await;
        }
    };
    scene.world.spawn(Scene::host(node), Box::pin(task));
    Some(())
}

/// After a restart, the dead letters of the store are read as usual.
#[test]
fn dead_letters_are_pages_of_the_store() {
    let scene = scene(11, false, 1);
    let refuses = ProviderFaults {
        refusals: 1_000,
        ..ProviderFaults::default()
    };
    scene.providers.set_trouble(refuses);
    let _ = submit(&scene, 0, charge("keyed"), Duration::ZERO);
    run_until(&scene, HOUR, || status(&scene) == Some(Status::Failed));
    let memory = scene.memory.clone();
    let seen = Arc::new(Mutex::new(0));
    let slot = seen.clone();
    let task = async move {
        let page = memory
            .dead_letters(
                &clinch_core::ports::LetterFilter::default(),
                clinch_core::ports::LetterOrder::NewestFirst,
                None,
                10,
            )
            .await
            .expect("a page");
        *slot.lock().expect("not poisoned") = page.items.len();
    };
    scene.world.spawn(0, Box::pin(task));
    run_until(&scene, MINUTE, || *seen.lock().expect("not poisoned") == 1);
}
