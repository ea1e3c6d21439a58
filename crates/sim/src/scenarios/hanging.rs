//! A store whose calls do not return.

use clinch_core::Effect;

use super::*;

fn spilled(scene: &Scene) -> usize {
    scene.machine(0, |machine| machine.spill.len())
}

fn set_hangs(scene: &Scene, hangs: bool) {
    scene
        .network_faults
        .store_hangs
        .store(hangs, Ordering::SeqCst);
}

/// RUN-2: `settle_patience` also counts while one store call hangs.
#[test]
fn run_2_an_answer_is_spilled_while_the_store_hangs() {
    for (seed, domain) in (20..).zip(["keyed", "natural", "unsafe", "blind"]) {
        let scene = scene(seed, false, 1);
        let _ = submit(&scene, 0, charge(domain), Duration::ZERO);
        run_until(&scene, MINUTE, || calls(&scene) == 1);
        set_hangs(&scene, true);
        run_until(&scene, MINUTE, || spilled(&scene) == 1);
        run_for(&scene, HOUR);
        set_hangs(&scene, false);
        run_until(&scene, HOUR, || status(&scene) == Some(Status::Completed));
        run_for(&scene, HOUR);
        assert_eq!((calls(&scene), spilled(&scene)), (1, 0), "{domain}");
    }
}

/// RUN-4: a spilled Fail ends its operation; the operation is not held.
#[test]
fn run_4_a_refusal_outlives_a_store_that_hangs() {
    let scene = scene(24, false, 1);
    let refuses = ProviderFaults {
        refusals: 1_000,
        ..ProviderFaults::default()
    };
    scene.providers.set_trouble(refuses);
    let _ = submit(&scene, 0, charge("unsafe"), Duration::ZERO);
    run_until(&scene, MINUTE, || calls(&scene) == 1);
    set_hangs(&scene, true);
    run_until(&scene, MINUTE, || spilled(&scene) == 1);
    run_for(&scene, HOUR);
    set_hangs(&scene, false);
    run_until(&scene, MINUTE, || status(&scene) == Some(Status::Failed));
    let failure = only(&scene).and_then(|operation| operation.state.failure);
    assert_eq!(failure.map(|failure| failure.effect), Some(Effect::None));
}

/// RUN-12: a stopping process spills the answers that the store does not take, well within its
/// grace; the next process finds them.
#[test]
fn run_12_a_stop_spills_what_the_store_does_not_take() {
    let scene = scene(25, false, 1);
    let _ = submit(&scene, 0, charge("blind"), Duration::ZERO);
    run_until(&scene, MINUTE, || calls(&scene) == 1);
    set_hangs(&scene, true);
    scene.stop(0);
    run_until(&scene, Duration::from_secs(30), || spilled(&scene) == 1);
    scene.crash(0);
    set_hangs(&scene, false);
    scene.start(0).expect("it starts again");
    run_until(&scene, MINUTE, || status(&scene) == Some(Status::Completed));
    assert_eq!(calls(&scene), 1);
}

/// RUN-9: one commit that does not return blocks no other.
#[test]
fn run_9_a_settle_that_hangs_holds_up_no_other() {
    // With this seed the second call is made at once.
    let scene = scene(31, false, 1);
    let hour = u64::try_from(HOUR.as_millis()).expect("small");
    scene
        .network_faults
        .settle_hangs_ms
        .store(hour, Ordering::SeqCst);
    let _ = submit(&scene, 0, charge("blind"), Duration::ZERO);
    run_until(&scene, MINUTE, || {
        scene.network_faults.settle_hangs_ms.load(Ordering::SeqCst) == 0
    });
    let other = command("blind", "order-2", "key-2", "{}").expect("a valid command");
    let answer = submit(&scene, 0, other, MINUTE);
    run_until(&scene, MINUTE, || calls(&scene) == 2);
    run_until(&scene, Duration::from_secs(3), || {
        answer.lock().expect("not poisoned").is_some()
    });
}
