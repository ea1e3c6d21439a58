//! Any world with any faults, which changes between runs and while it is read: late merges, wrong
//! dates, force-pushes, deletions, transfers, renames, lists that slide, stray 401s, rotated tokens,
//! links in any spelling and to other servers, jobs that are executed twice, streams beyond the usual
//! ones. Whatever a run has not read, or not as it is, is named by a failed or unavailable job of its
//! kind and place; a run without faults that reads everything ends with exactly the documents of the
//! world, and former contributors; the next one, by what changed, has all of the world's too.

use std::time::Duration;

use clinch::ports::Clock as _;
use clinch::testing::SplitMix;
use clinch_github::fake::{
    BASE, Fault, Faults, Limits, Links, Paging, Restless, Secondary, Setup, Size, World,
};
use clinch_github::{Bounds, JobKind, RunStatus, Selection, Settings, Start, Token};

use crate::lab::{Lab, assert_whole};
use crate::oracle::{assert_equal, assert_exact, assert_nothing_is_lost};

/// Cases in a test run, split over tests that run in parallel.
const CASES: u64 = 1_000;
const PARTS: u64 = 4;

fn below(rng: &mut SplitMix, bound: u64) -> u64 {
    rng.next_u64() % bound
}

fn choice(rng: &mut SplitMix, bound: u64) -> usize {
    usize::try_from(below(rng, bound)).unwrap_or(0)
}

/// One world in nine has everything that streams collect.
fn world(rng: &mut SplitMix, has_streams: bool) -> World {
    let documents = match has_streams {
        true => 30,
        false => 150,
    };
    let size = Size {
        users: 1 + choice(rng, 2),
        repositories: usize::try_from(below(rng, 5)).unwrap_or(0),
        documents: 3 + usize::try_from(below(rng, documents)).unwrap_or(0),
    };
    let world = World::generate(rng.next_u64(), &size);
    match has_streams {
        true => world.with_streams(),
        false => world,
    }
}

/// The streams of a world that has them all: some, or all.
fn streams(rng: &mut SplitMix) -> Vec<JobKind> {
    let share = 1 + below(rng, 4);
    let selectable = JobKind::all().filter(|kind| kind.as_str() != "repo_search");
    let is_default = |kind: &JobKind| JobKind::defaults().any(|one| one == *kind);
    let drawn = selectable.filter(|kind| is_default(kind) || below(rng, 4) < share);
    drawn.collect()
}

fn faults(rng: &mut SplitMix, world: &World) -> Faults {
    let mut faults = Faults::seeded(rng.next_u64());
    let secondary = Secondary {
        status: [403, 429][usize::from(below(rng, 2) == 0)],
        has_retry_after: below(rng, 2) == 0,
    };
    let all = [
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(401),
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Cut,
        Fault::Malformed,
        Fault::Accepted,
        Fault::Slow(Duration::from_secs(20)),
        Fault::Slow(Duration::from_secs(40)),
        Fault::Secondary(secondary, Duration::from_secs(30)),
    ];
    for fault in all {
        if below(rng, 2) == 0 {
            faults = faults.chance(below(rng, 100) as f64 / 1_000.0, fault);
        }
    }
    // Usually faults are limited so that retries succeed; sometimes not.
    if below(rng, 4) > 0 {
        faults = faults.at_most(4);
    }
    for name in world.full_names() {
        if below(rng, 10) == 0 {
            let status = [404, 410, 451, 502][choice(rng, 4)];
            faults = faults.repository(&name, status);
        }
    }
    faults
}

fn setup(rng: &mut SplitMix, world: &World) -> Setup {
    let primary = [20, 50, 5_000][choice(rng, 3)];
    let links = [
        Links::Plain,
        Links::UpperCase,
        Links::DefaultPort,
        Links::TwoLines,
        Links::TwoLines,
        Links::Plain,
        Links::OtherHost,
        Links::OtherScheme,
    ];
    Setup {
        app: None,
        limits: Limits {
            primary,
            // A short window, so that few cases sleep through many of them.
            window: Duration::from_secs(600),
            ..Limits::default()
        },
        faults: faults(rng, world),
        paging: [Paging::Numbers, Paging::Cursors][choice(rng, 2)],
        latency: Duration::from_millis(below(rng, 200)),
        timeout: Some(Duration::from_secs(15)),
        restless: restless(rng),
        links: links[choice(rng, 8)],
        is_uncompressed: false,
        hides_links_on_304: choice(rng, 2) == 0,
        unlisted: 0,
    }
}

/// Usually the world changes while it is read.
fn restless(rng: &mut SplitMix) -> Option<Restless> {
    let share = [0.0, 0.02, 0.1][choice(rng, 3)];
    let seed = rng.next_u64();
    (share > 0.0).then_some(Restless { seed, share })
}

/// A run through everything, or through some repositories by name or by a search, or of some time.
fn any_start(rng: &mut SplitMix, lab: &Lab) -> Start {
    let names = lab.fake.with_world(|world| world.full_names());
    let own = names
        .into_iter()
        .filter(|name| name.starts_with("octocat/"));
    let drawn: Vec<String> = own.filter(|_| choice(rng, 2) == 0).collect();
    let selection = match choice(rng, 6) {
        0 | 1 => Selection::new("octocat", &drawn, None),
        2 => Selection::new("octocat", &[], Some("user:octocat")),
        _ => Ok(Selection::default()),
    };
    let day = |back: u64| {
        let at = lab.clock.now().as_millis() - i64::try_from(back).unwrap_or(0) * 86_400_000;
        let at = jiff::Timestamp::from_millisecond(at).expect("a time");
        at.to_string()
    };
    let (since, until) = (below(rng, 400), below(rng, 40));
    let (since, until) = (day(since.max(until)), day(until));
    let bounds = match choice(rng, 6) {
        0 => Bounds::new(Some(&since), Some(&until)),
        1 => Bounds::new(Some(&since), None),
        2 => Bounds::new(None, Some(&until)),
        _ => Ok(Bounds::default()),
    };
    let bounds = bounds.expect("times");
    Start {
        selection: selection.expect("own repositories"),
        is_full: bounds.is_all() && choice(rng, 4) == 0,
        bounds,
        ..Start::default()
    }
}

/// Runs without faults, of which the first reads everything.
async fn assert_ends_exactly(lab: &Lab, seed: u64, has_streams: bool) {
    let full = lab.run_full("octocat").await;
    assert_whole(&full);
    assert_equal(lab, &full).await;
    // Whatever happens then, what changed is enough.
    lab.fake.with_world(|world| world.upset(seed + 3, 8));
    let run = lab.run("octocat").await;
    assert_whole(&run);
    assert!(!run.is_full);
    assert_exact(lab, &run).await;
    let full = lab.run_full("octocat").await;
    assert_whole(&full);
    assert_equal(lab, &full).await;
    // What only grows is read whole by what changed.
    lab.fake.with_world(|world| world.change(seed, 8));
    let run = lab.run("octocat").await;
    assert_whole(&run);
    match has_streams {
        // Some changes of further streams have no date.
        true => assert_exact(lab, &run).await,
        false => assert_equal(lab, &run).await,
    }
}

async fn case(seed: u64) {
    let mut rng = SplitMix::new(seed);
    let has_streams = seed.is_multiple_of(9);
    let world = world(&mut rng, has_streams);
    let setup = setup(&mut rng, &world);
    let limit = setup.limits.primary;
    let tokens = ["fake-ann-1", "fake-ann-2", "fake-bob-1", "fake-eve-1"];
    let mut settings = Settings {
        api_url: BASE.parse().expect("an address"),
        page_size: 3 + u32::try_from(below(&mut rng, 28)).unwrap_or(0),
        concurrency: 1 + choice(&mut rng, 8),
        ..Settings::default()
    };
    if has_streams {
        settings.streams = streams(&mut rng);
    }
    let mut drawn = |rng: &mut SplitMix| {
        let (first, count) = (choice(rng, 4), 1 + choice(rng, 3));
        let drawn = tokens.iter().cycle().skip(first).take(count);
        settings.tokens = drawn.map(|one| Token::new(*one)).collect();
        settings.clone()
    };
    let first = drawn(&mut rng);
    let mut lab = Lab::with(world, setup, |settings| *settings = first).await;
    lab.records
        .lose(rng.next_u64(), [0.0, 0.05][choice(&mut rng, 2)]);
    for round in 0..3 {
        let before = lab.world(&["octocat"]);
        let start = any_start(&mut rng, &lab);
        let run = lab.collector.start_with("octocat", &start).await;
        let run = lab.end(&run.expect("it begins").run_id).await;
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
        assert_eq!(run.jobs.open(), 0);
        assert_nothing_is_lost(&lab, &run, &start, &before).await;
        lab.fake.with_world(|world| world.upset(seed + round, 8));
        // Tokens are rotated.
        if choice(&mut rng, 2) == 0 {
            lab = lab.restarted_with(drawn(&mut rng)).await;
        }
    }
    lab.fake.set_faults(Faults::none());
    lab.fake.set_restless(None);
    if matches!(lab.fake.links(), Links::OtherHost | Links::OtherScheme) {
        lab.fake.set_links(Links::Plain);
    }
    lab.records.lose(0, 0.0);
    assert_ends_exactly(&lab, seed, has_streams).await;
    let tally = lab.fake.tally();
    assert_eq!(tally.primary_refusals, 0, "{tally:?}");
    assert!(
        tally.window_max.values().all(|most| *most <= limit),
        "{tally:?}"
    );
}

/// One part of the cases; a failing case prints its number.
fn part(part: u64) {
    let only = std::env::var("CLINCH_GITHUB_CASE").ok();
    let only: Option<u64> = only.and_then(|text| text.parse().ok());
    for seed in (0..CASES).filter(|seed| seed % PARTS == part) {
        if only.is_some_and(|only| only != seed) {
            continue;
        }
        let again = Again(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(case(seed));
        std::mem::forget(again);
    }
}

/// Prints how to run a failing case again.
struct Again(u64);

impl Drop for Again {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!("case {seed}: CLINCH_GITHUB_CASE={seed} cargo test -p clinch-github property");
    }
}

#[test]
fn any_world_ends_exactly_1() {
    part(0);
}

#[test]
fn any_world_ends_exactly_2() {
    part(1);
}

#[test]
fn any_world_ends_exactly_3() {
    part(2);
}

#[test]
fn any_world_ends_exactly_4() {
    part(3);
}
