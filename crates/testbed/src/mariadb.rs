//! MariaDB: durable as in production, small as in a test.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::kind::{as_user, on_path, run};
use crate::{Kind, Trouble};

pub(crate) fn prepare(folder: &Path) -> Result<(), Trouble> {
    let kind = Kind::MariaDb;
    let program = on_path("mariadb-install-db").ok_or(Trouble::Missing(kind))?;
    let mut data = std::ffi::OsString::from("--datadir=");
    data.push(folder.join("data"));
    let mut command = as_user(kind.user(), &program);
    command
        .arg("--no-defaults")
        .arg(data)
        .args(["--auth-root-authentication-method=normal"])
        .args(["--skip-test-db", "--skip-name-resolve"])
        // One that starts removes the temporary tables of all that share its folder for them.
        .env("TMPDIR", folder)
        .current_dir(folder);
    run(kind, &mut command)?;
    // A folder beside its own is an empty database.
    let database = folder.join("data/clinch");
    let made = std::fs::create_dir(&database).and_then(|()| match kind.user() {
        Some((uid, gid)) => std::os::unix::fs::chown(&database, Some(uid), Some(gid)),
        None => Ok(()),
    });
    made.map_err(|error| Trouble::broken(kind, error))
}

pub(crate) fn arguments(command: &mut Command, folder: &Path, port: u16) {
    let with = |flag: &str, file: &str| {
        let mut argument = std::ffi::OsString::from(flag);
        argument.push(folder.join(file));
        argument
    };
    command
        .env("TMPDIR", folder)
        .arg("--no-defaults")
        .arg(with("--datadir=", "data"))
        .arg(with("--socket=", "socket"))
        .arg(with("--pid-file=", "pid"))
        .arg(format!("--port={port}"))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args(["--max-connections=300", "--innodb-buffer-pool-size=256M"])
        .args(["--character-set-server=utf8mb4", "--skip-log-bin"]);
}

/// The server greets whoever connects.
pub(crate) fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut greeting = [0_u8; 5];
    stream.read_exact(&mut greeting).is_ok() && greeting[4] == 10
}
