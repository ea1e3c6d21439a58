//! On a real server, one behaviour a test: each script with its edge cases, loss of data,
//! leaders that are paused, idle nodes, and limits under contention.
//!
//! Without a server they show as ignored; with `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bus;
mod chaos;
mod delayed;
mod engine;
mod idle;
mod limiter;
mod link;
mod locks;
mod paused;
mod quota;
mod sentinel;
mod support;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clinch_testbed::{Kind, Trouble};
use libtest_mimic::{Arguments, Trial};

/// A test that takes this long hangs; nothing is measured by it.
const HANG_AFTER: Duration = Duration::from_secs(120);

type Body = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// Lists the tests of a module: `module { name, … }`.
macro_rules! tests {
    ($($module:ident { $($name:ident,)+ })+) => {
        vec![$($((concat!(stringify!($module), "::", stringify!($name)), (|| Box::pin($module::$name())) as Body)),+),+]
    };
}

/// The bus and its scheduler.
fn of_the_bus() -> Vec<(&'static str, Body)> {
    tests! {
        bus {
            core_11_hints_with_one_delay_come_in_order,
            core_11_a_late_ack_is_an_ack,
            core_11_what_is_not_a_hint_is_dropped,
            core_11_a_full_bus_refuses_and_writes_nothing,
            core_11_never_more_than_asked_for_over_many_domains,
            col_6_a_lost_group_is_made_again_under_a_waiting_reader,
            col_6_acked_entries_leave_nothing_behind,
            col_6_entries_that_vanish_are_counted,
            col_6_what_a_bus_holds_is_counted,
            col_6_a_waiting_reader_is_told_of_an_ended_loan,
            col_6_ended_loans_are_looked_for_at_the_start,
            col_6_consumers_that_are_gone_are_forgotten,
            col_14_a_hint_whose_loan_ended_is_counted_as_recovered,
            col_16_a_waiting_call_that_is_dropped_loses_nothing,
            run_7_a_shorter_extension_ends_sooner,
            run_7_a_former_holder_extends_nothing,
            run_7_a_receipt_of_another_kind_changes_nothing,
        }
        delayed {
            col_7_nothing_is_promoted_early,
            col_7_promotion_goes_in_batches_and_loses_nothing,
            col_7_a_leader_that_was_paused_promotes_nothing,
            col_7_only_the_owner_releases_the_lead,
            col_7_another_takes_over_when_the_leader_leaves,
            col_7_a_sleeping_scheduler_is_woken,
            col_14_the_sleeps_of_the_scheduler_are_counted,
            col_7_a_lead_that_was_lost_with_its_data_has_a_higher_fence,
            col_7_a_leader_that_stops_renewing_is_replaced_and_nothing_comes_twice,
        }
    }
}

/// Locks, budgets and limits, and what all of them do when a server is idle or gone.
fn of_the_rest() -> Vec<(&'static str, Body)> {
    tests! {
        paused {
            col_7_a_process_that_leads_is_stopped_and_nothing_comes_twice,
        }
        locks {
            run_7_a_fence_grows_also_when_the_data_is_lost,
            run_7_a_stranger_cannot_release_a_lock,
        }
        quota {
            col_8_64_reservers_never_exceed_the_quota,
            col_8_the_scripts_agree_with_the_rules,
            col_8_a_budget_is_forgotten_when_it_is_over,
        }
        limiter {
            col_8_two_nodes_share_one_rate_exactly,
            col_8_no_stretch_has_more_than_the_rate,
            col_8_a_pause_closes_every_node_by_push,
            col_8_a_shorter_pause_does_not_end_a_longer_one,
            col_8_after_a_pause_the_burst_is_spent,
            col_8_a_node_that_starts_learns_of_the_pause,
            col_8_without_a_rate_a_reservation_is_no_command,
            col_8_without_the_server_nothing_is_let_through,
        }
        idle {
            col_13_idle_nodes_send_reads_and_renewals_only,
        }
        chaos {
            out_8_flushall_and_a_truncated_file_lose_no_operation,
            out_8_operations_wait_for_a_server_that_is_down,
        }
        link {
            the_check_up_tells_what_a_server_risks,
            errors_are_classified_and_tell_no_secret,
            a_server_that_restarts_is_used_again,
        }
        sentinel {
            col_5_the_bus_follows_a_fail_over,
        }
    }
}

fn main() -> ExitCode {
    if paused::plays_its_part() {
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let is_missing = !in_ci && Kind::Redis.program().is_none();
    if is_missing && !arguments.list {
        eprintln!("ignored: {}", Trouble::Missing(Kind::Redis));
    }
    let trial = |(name, body): (&str, Body)| {
        let run = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let ended = runtime.block_on(async { tokio::time::timeout(HANG_AFTER, body()).await });
            runtime.shutdown_background();
            ended.map_err(|_| format!("hung: no end after {HANG_AFTER:?}").into())
        };
        Trial::test(name, run).with_ignored_flag(is_missing)
    };
    libtest_mimic::run(
        &arguments,
        of_the_bus()
            .into_iter()
            .chain(of_the_rest())
            .map(trial)
            .collect(),
    )
    .exit_code()
}
