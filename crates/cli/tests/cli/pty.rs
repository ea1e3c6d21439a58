//! Runs the binary on a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The output on a terminal, and the exit code.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) code: i32,
    pub(crate) screen: String,
}

/// Runs the command on a terminal of this width, and types `answer` when it asks.
pub(crate) fn on_terminal(mut command: Command, columns: u16, answer: &str) -> Session {
    let (mut person, terminal) = open(columns);
    command
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal);
    let mut child = command.spawn().unwrap();
    // Closes all handles of the terminal's side except those of the child.
    drop(command);
    let mut screen = Vec::new();
    let mut bytes = [0; 1024];
    let mut has_answered = false;
    // The read fails once the child has ended.
    while let Ok(read @ 1..) = person.read(&mut bytes) {
        screen.extend_from_slice(&bytes[..read]);
        let asks = screen.windows(5).any(|text| text == b"[y/N]");
        if asks && !has_answered {
            has_answered = true;
            person.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    }
    Session {
        code: child.wait().unwrap().code().unwrap(),
        screen: String::from_utf8(screen).unwrap().replace("\r\n", "\n"),
    }
}

/// Runs the command on a terminal, and interrupts it once this text is on the screen.
pub(crate) fn interrupted(mut command: Command, columns: u16, text: &str) -> Session {
    let (mut person, terminal) = open(columns);
    command
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut screen = Vec::new();
    let mut bytes = [0; 1024];
    let mut was_sent = false;
    while let Ok(read @ 1..) = person.read(&mut bytes) {
        screen.extend_from_slice(&bytes[..read]);
        if !was_sent && String::from_utf8_lossy(&screen).contains(text) {
            was_sent = true;
            let child = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(child, rustix::process::Signal::INT).unwrap();
        }
    }
    Session {
        code: child.wait().unwrap().code().unwrap(),
        screen: String::from_utf8(screen).unwrap().replace("\r\n", "\n"),
    }
}

fn open(columns: u16) -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&person, size).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let terminal = OpenOptions::new().read(true).write(true).open(path);
    (File::from(person), terminal.unwrap())
}
