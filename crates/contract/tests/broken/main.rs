//! The suite bites: adapters that are wrong in one way each, and the case that must notice.
//!
//! Each is the reference adapter with one flaw in the way. The whole suite runs against it;
//! the named case must fail, and the others that fail are told. The control, without a flaw,
//! passes everything.
#![forbid(unsafe_code)]

mod begins;
mod claims;
mod flaw;
mod hints;
mod port;
mod rows;
mod spawns;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clinch_contract::{
    Capabilities, Case, Factory, Sequences, cases, check, check_within, differ, factory,
};
use libtest_mimic::{Arguments, Failed, Trial};

use flaw::{Flaw, Real, Unbroken};

const ALL: Capabilities = Capabilities {
    store: true,
    bus: true,
    queue: true,
    locks: true,
    faults: true,
};

/// A flaw that makes an adapter hang is found by the suite's guard. This one is shorter: a
/// case that is slow only because the machine is busy may count as failed here, since only
/// the named one must fail.
const HANG_AFTER: Duration = Duration::from_secs(2);

/// Says nothing about a flaw that the smaller sizes do not, and takes longest.
const LONGEST: &str = "size::batches_of_10_000";

/// An adapter with one flaw.
struct Broken {
    flaw: &'static str,
    rejected_by: &'static str,
    factory: Factory,
}

macro_rules! broken {
    ($($flaw:ident: $rejected_by:literal,)+) => {
        vec![$(Broken {
            flaw: stringify!($flaw),
            rejected_by: $rejected_by,
            factory: with::<$flaw>(),
        }),+]
    };
}

fn with<F: Flaw + Default>() -> Factory {
    factory(|| {
        let flaw: Arc<dyn Flaw> = Arc::new(F::default());
        async move { Ok(port::subject(Real::new(), flaw)) }
    })
}

fn row_flaws() -> Vec<Broken> {
    use rows::*;
    use spawns::*;
    broken! {
        ForgetsTheFence: "attempt::a_stale_fence_changes_nothing_in_any_call",
        HearsAnyAttempt: "proof::a_report_that_names_another_attempt_changes_nothing",
        RecordsInAMemoryOnly: "settle::a_recorded_yes_survives_a_crash",
        FinalizesAtWriteAhead: "settle::write_ahead_makes_a_yes_readable",
        AllowsCompletedToFailed: "scenario::s5_nothing_goes_back_from_completed",
        DropsALateOk: "attempt::a_yes_of_a_stale_attempt_settles_all_the_same",
        AcceptsTwiceUnderARace: "keys::one_operation_under_64_concurrent_callers",
        ForgetsTheFingerprint: "keys::another_payload_is_a_mismatch_that_names_the_operation",
        AcceptsWithoutAQueueRow: "accept::takes_in_an_operation_with_its_queue_row",
        AcceptsInTwoCommits: "atomic::an_accept_that_failed_left_nothing",
        RestartsSeqWithTheLane: "accept::seq_grows_after_the_lane_was_empty",
        RefundsNothing: "attempt::not_called_refunds_the_attempt",
        DoesNotRaiseTheVersion: "amend::version_counts_every_change",
        ShortensTheLease: "attempt::extend_never_shortens_the_lease",
        SpawnsOutsideTheCommit: "spawn::survives_a_crash_between_write_ahead_and_finalize",
        SpawnsBeforeTheCommit: "spawn::is_accepted_by_finalize_and_not_before",
        KeepsDeadLettersOfCancels: "retention::every_failure_but_cancel_is_a_dead_letter",
        CountsTheDeadlineFromAccept: "accept::a_routes_deadline_counts_from_run_at",
        RedrivesWhatWasApplied: "redrive::is_refused_alone_if_the_call_was_applied_after_all",
        ForgetsTheRedrive: "redrive::a_late_yes_completes_the_redrive_in_every_phase",
    }
}

fn begin_flaws() -> Vec<Broken> {
    use begins::*;
    broken! {
        IgnoresPause: "begin::refuses_in_a_paused_domain",
        IgnoresTheLane: "begin::refuses_behind_in_the_lane",
        IgnoresRunAt: "begin::refuses_before_run_at",
        HandsOutCorruptedPayloads: "begin::never_hands_out_a_corrupted_payload",
        ForgetsAnUnknownEffect: "attempt::an_unknown_effect_is_sticky",
    }
}

fn claim_flaws() -> Vec<Broken> {
    use claims::*;
    broken! {
        HandsARowToTwoRelays: "outbox::never_the_same_row_to_two_claimers",
        HandsARowToTwoRecoverers: "recovery::never_the_same_row_to_two_claimers",
        NeverEndsAClaim: "outbox::a_claim_that_ran_out_is_claimable_again",
        ClaimsByIdAfterTheLast: "outbox::a_row_that_commits_late_is_found",
        SweepsWithoutAPause: "sweep::each_round_waits_twice_as_long_up_to_a_bound",
        PublishesWhatChanged: "outbox::published_does_nothing_to_a_row_that_changed",
        PrunesKeysWithHistory: "retention::a_key_outlives_its_operation",
        BelievesAnyClock: "clock::a_jump_ahead_forgets_no_key",
        PrunesOpenOperations: "retention::open_operations_are_never_pruned",
        ImportsTwice: "retention::importing_twice_is_importing_once",
        LetsCountersDrift: "domains::counters_equal_the_rows_after_a_random_workload",
        CompletesABatchTwice: "batch::completes_once_under_concurrent_settlers",
        CountsKnownKeysAsMembers: "batch::a_known_key_is_no_second_member",
        PagesByOffset:
            "inspect::list_shows_nothing_twice_and_skips_nothing_while_rows_are_added",
        PollsForNews: "notices::settled_wakes_who_waits",
        RedeliversWithoutTheReaper: "queue::is_not_redelivered_before_the_reaper_acts",
        LetsAnyoneRelease: "locks::only_its_owner_releases_it",
        NeverRaisesALocksFence: "locks::the_fence_grows_with_every_new_owner",
    }
}

fn hint_flaws() -> Vec<Broken> {
    use hints::*;
    broken! {
        LosesDelayedHints: "bus::delivers_nothing_before_its_delay",
        IgnoresDelays: "bus::delivers_nothing_before_its_delay",
        MixesDestinations: "topics::only_those_that_are_named",
        AcksOnDequeue: "bus::what_is_neither_acked_nor_extended_comes_again",
        RedeliversWhatWasAcked: "bus::an_acked_delivery_never_comes_again",
        IgnoresVisibility: "bus::nothing_comes_again_before_the_visibility_timeout",
        PollsForHints: "bus::a_waiting_call_is_woken_by_a_publish",
        DeliversALaneBackwards: "bus::hints_of_a_lane_come_in_order",
        BelievesStaleReceipts: "bus::a_nack_of_a_delivery_that_is_not_ours_does_nothing",
        ForgetsRedeliveries: "bus::the_redelivery_count_grows",
    }
}

/// The cases that notice, by name.
fn rejections(factory: &Factory) -> Vec<&'static str> {
    let suite = cases(ALL).into_iter().filter(|case| case.name != LONGEST);
    let fails = |case: &Case| check_within(case, factory, HANG_AFTER).is_err();
    suite.filter(fails).map(|case| case.name).collect()
}

fn trial(broken: Broken) -> Trial {
    let Broken {
        flaw,
        rejected_by,
        factory,
    } = broken;
    let name = format!("{} is rejected by {rejected_by}", snake(flaw));
    Trial::test(name, move || {
        let rejected = rejections(&factory);
        println!(
            "{flaw}: rejected by {}: {}",
            rejected.len(),
            rejected.join(", ")
        );
        match rejected.contains(&rejected_by) {
            true => Ok(()),
            false => Err(Failed::from(format!("{rejected_by} lets it pass"))),
        }
    })
}

/// The reference adapter passes with the flaw taken out: what rejects the others is their
/// flaw, and not the way it is put in.
fn control() -> Trial {
    Trial::test("the_unbroken_passes_every_case", || {
        let unbroken = with::<Unbroken>();
        let failed: Vec<String> = cases(ALL)
            .iter()
            .filter_map(|case| Some(format!("{}: {}", case.name, check(case, &unbroken).err()?)))
            .collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Failed::from(failed.join("\n"))),
        }
    })
}

/// Flaws that the differential test must find in these many sequences: it sees every answer,
/// but makes one call after the other and crashes nothing.
const FOUND_BY_DIFFER: [&str; 14] = [
    "ForgetsTheFence",
    "FinalizesAtWriteAhead",
    "DropsALateOk",
    "ForgetsTheFingerprint",
    "AcceptsWithoutAQueueRow",
    "RefundsNothing",
    "DoesNotRaiseTheVersion",
    "KeepsDeadLettersOfCancels",
    "IgnoresPause",
    "IgnoresTheLane",
    "IgnoresRunAt",
    "NeverEndsAClaim",
    "PrunesKeysWithHistory",
    "LetsCountersDrift",
];

/// True: random sequences of calls give other answers than the reference.
fn differs(broken: &Factory) -> bool {
    let (reference, broken) = (with::<Unbroken>(), broken.clone());
    let plan = Sequences {
        from: 1,
        count: 150,
        calls: 60,
        each: 10,
    };
    let compare = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(differ(&reference, &broken, plan))
    };
    // A panic is a difference too.
    std::thread::spawn(compare)
        .join()
        .map_or(true, |verdict| verdict.is_err())
}

fn differential() -> Vec<Trial> {
    let all = [row_flaws(), begin_flaws(), claim_flaws()];
    let all = all.into_iter().flatten();
    let sought = all.filter(|broken| FOUND_BY_DIFFER.contains(&broken.flaw));
    let trial = |broken: Broken| {
        let name = format!("differ finds that it {}", snake(broken.flaw));
        Trial::test(name, move || match differs(&broken.factory) {
            true => Ok(()),
            false => Err(Failed::from("no answer differs")),
        })
    };
    let same = Trial::test("differ finds nothing in the unbroken", || {
        match differs(&with::<Unbroken>()) {
            false => Ok(()),
            true => Err(Failed::from("the reference differs from itself")),
        }
    });
    sought.map(trial).chain([same]).collect()
}

fn snake(camel: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in camel.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn main() -> ExitCode {
    // A broken adapter may well panic; the case that it fails tells enough.
    std::panic::set_hook(Box::new(|_| {}));
    let broken = [row_flaws(), begin_flaws(), claim_flaws(), hint_flaws()];
    let mut trials: Vec<Trial> = broken.into_iter().flatten().map(trial).collect();
    trials.push(control());
    trials.extend(differential());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
