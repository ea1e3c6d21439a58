//! Clinch and its peers on one SQLite file each.

use clinch_peers_load::Result;

use crate::arguments::Arguments;
use crate::contender::{Contender, Jobs};
use crate::folder::Folder;
use crate::install::Installer;
use crate::machine::{self, Ticks};
use crate::peer::Peer;
use crate::report::{Report, Rounds};
use crate::rows;

const PART: &str = "SQLite";

pub(crate) fn measure(
    arguments: &Arguments,
    folder: &Folder,
    installer: &mut Installer,
    report: &mut Report,
) -> Result<()> {
    let mut contenders = Vec::new();
    for peer in [Peer::Effectum, Peer::Apalis] {
        if !arguments.wants(peer) {
            continue;
        }
        match install(peer, installer) {
            Ok((contender, setting)) => {
                report.setting(peer.name(), setting);
                contenders.push((peer, contender, Rounds::new()));
            }
            Err(why) => report.not_measured(peer, why),
        }
    }
    if contenders.is_empty() {
        return Ok(());
    }
    report.setting(
        "Clinch on SQLite",
        "write-ahead log, synchronous=FULL, the store's own defaults; engine with 2,000 attempts at \
         once and claims of 1,000",
    );
    let jobs = Jobs {
        singles: arguments.jobs(30_000),
        bulk: arguments.jobs(60_000),
        samples: arguments.jobs(2_000),
    };
    report.setting(format!("jobs, {PART}"), jobs.text());
    let clinch = Contender::clinch("sqlite")?;
    let (mut ours, mut disk) = (Rounds::new(), Rounds::new());
    let (since, mut failed) = (Ticks::now()?, Vec::new());
    for round in 0..arguments.rounds {
        disk.push(machine::syncs(folder.path())?);
        let play = |contender: &Contender, jobs: Jobs| {
            let own = Folder::new(folder.path())?;
            contender.play(&own.path().to_string_lossy(), jobs)
        };
        ours.push(play(&clinch, jobs)?);
        eprintln!("{PART}, round {round}: clinch {:?}", ours.last());
        for (peer, contender, rounds) in &mut contenders {
            let jobs = match *peer {
                Peer::Apalis => jobs.few(),
                _ => jobs,
            };
            match play(contender, jobs) {
                Ok(figures) => rounds.push(figures),
                Err(why) => failed.push((*peer, why)),
            }
            eprintln!("{PART}, round {round}: {} {:?}", peer.name(), rounds.last());
        }
        report.leave_out(&mut contenders, &mut failed);
    }
    machine::others(PART, since, report)?;
    report.compare(PART, rows::SQLITE, &ours, Peer::Disk, &disk)?;
    for (peer, _, rounds) in &contenders {
        report.compare(PART, rows::SQLITE, &ours, *peer, rounds)?;
    }
    Ok(())
}

/// The program, and how it is set up.
fn install(peer: Peer, installer: &Installer) -> Result<(Contender, String)> {
    if peer == Peer::Apalis {
        let version = installer.version("apalis", "apalis-sqlite");
        let setting = format!(
            "apalis-sqlite {version}, batches of 10 and 10 jobs at once (its default; larger ones are \
             slower), write-ahead log, synchronous=FULL (its `setup` would turn syncing off), one \
             connection that writes, woken in the process; 3,000 jobs instead of 30,000 and 60,000, \
             because its drain slows down with their number"
        );
        return Ok((installer.build("apalis", "clinch-peers-apalis")?, setting));
    }
    let version = installer.version("effectum", "effectum");
    let setting = format!(
        "{version}, 500 jobs at once, write-ahead log, synchronous=FULL (it sets NORMAL and no \
         write-ahead log itself: two lines of a copy are changed)"
    );
    Ok((installer.effectum()?, setting))
}
