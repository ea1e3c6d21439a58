//! Wakes other processes that use the same file.
//!
//! Each process has a datagram socket in the folder beside the database and sends its notices to
//! all other sockets after a commit. A new process lists the folder once and sends a hello to each
//! socket it finds, so that the others learn its name; they never list the folder again. Sending
//! never waits: a process that cannot take another message has so many unread that it will check
//! everything anyway. A lost message only costs latency, which the maximum of every wait bounds.
//!
//! Only the owner may open the folder. Messages are validated all the same: a name in a message
//! must be one that [`PeerSocket`] gives to sockets, and only sockets are ever removed.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use clinch_core::ports::Notice;
use clinch_core::{Domain, Error, ErrorKind, OpId, Result};
use uuid::Uuid;

use crate::private;

/// Largest message; more notices than fit are replaced by one `Lagged` notice.
const MESSAGE_MAX: usize = 8_192;
/// Messages read in a row after which some may have been dropped: below the kernel's default queue
/// of ten.
const LAGGED_AFTER: usize = 8;

/// How long a hello waits for a process that is too busy to receive it.
const HELLO_WAIT: Duration = Duration::from_secs(1);

const DUE: u8 = b'd';
const SETTLED: u8 = b's';
const RECOVERY: u8 = b'r';
const LAGGED: u8 = b'l';
const HELLO: u8 = b'h';

/// Sends notices to the other processes on the file, and receives theirs.
pub(crate) struct PeerSocket {
    dir: PathBuf,
    own: String,
    socket: UnixDatagram,
    sender: UnixDatagram,
    peers: Mutex<BTreeSet<String>>,
    closed: AtomicBool,
}

impl PeerSocket {
    /// Creates this process's socket and says hello to the others. `hear` gets the notices of the
    /// others.
    pub(crate) fn bind(
        dir: &Path,
        hear: impl Fn(Vec<Notice>) + Send + 'static,
    ) -> Result<Arc<Self>> {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let own = format!("{}-{number}.sock", std::process::id());
        let failed = |error: io::Error| {
            let message = "the socket that wakes this process cannot be made beside the database";
            Error::new(ErrorKind::Unavailable, message).caused_by(error)
        };
        let path = dir.join(&own);
        // Left behind by an earlier process with our process id.
        remove_socket(&path);
        let socket = at(&path, |path| UnixDatagram::bind(path)).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(private::FILE)).map_err(failed)?;
        let sender = UnixDatagram::unbound().map_err(failed)?;
        let socket = Arc::new(Self {
            dir: dir.to_owned(),
            own,
            socket,
            sender,
            peers: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        socket.say_hello().map_err(failed)?;
        let listener = socket.socket.try_clone().map_err(failed)?;
        let weak = Arc::downgrade(&socket);
        let listen = move || {
            let mut heard = Received::default();
            while heard.read(&listener).is_ok() {
                let Some(socket) = weak.upgrade().filter(|socket| !socket.is_closed()) else {
                    return;
                };
                socket.peers().append(&mut heard.hellos);
                drop(socket);
                hear(std::mem::take(&mut heard.notices));
            }
        };
        let builder = thread::Builder::new().name("clinch-sqlite-peers".into());
        builder.spawn(listen).map_err(failed)?;
        Ok(socket)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Introduces this process to every socket in the folder.
    fn say_hello(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_socket_name(&name) && name != self.own {
                self.peers().insert(name);
            }
        }
        let mut hello = vec![HELLO];
        text(&mut hello, &self.own);
        // Hellos may wait: a process that misses it would never send us notices.
        self.sender.set_write_timeout(Some(HELLO_WAIT))?;
        self.send(&hello);
        self.sender.set_nonblocking(true)
    }

    /// Sends notices to the other processes.
    pub(crate) fn notify(&self, notices: &[Notice]) {
        if notices.is_empty() || self.peers().is_empty() {
            return;
        }
        let mut message = Vec::new();
        for notice in notices {
            write(&mut message, notice);
            if message.len() > MESSAGE_MAX {
                message = vec![LAGGED];
                break;
            }
        }
        self.send(&message);
    }

    fn send(&self, message: &[u8]) {
        self.peers().retain(|peer| {
            let path = self.dir.join(peer);
            let sent = at(&path, |path| self.sender.send_to(message, path));
            let gone = sent.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
            if gone {
                // The process behind this socket has ended.
                remove_socket(&path);
            }
            !gone
        });
    }

    /// Stops listening.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let path = self.dir.join(&self.own);
        let _ = at(&path, |path| self.sender.send_to(&[LAGGED], path));
        remove_socket(&path);
    }
}

/// Whether a name has the form that [`PeerSocket::bind`] gives to sockets:
/// process id, number, `.sock`.
fn is_socket_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = name
        .strip_suffix(".sock")
        .and_then(|name| name.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Removes the file only if it is a socket.
fn remove_socket(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        let _ = fs::remove_file(path);
    }
}

/// A socket address holds a short path only: a longer one goes through a handle of its folder.
pub(crate) fn at<T>(path: &Path, call: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    use std::os::fd::AsRawFd;
    /// Size of the path in `sockaddr_un`, its terminating zero included.
    const PATH_MAX: usize = 108;
    if path.as_os_str().len() < PATH_MAX {
        return call(path);
    }
    let unnamed = || io::Error::from(io::ErrorKind::InvalidInput);
    let dir = fs::File::open(path.parent().ok_or_else(unnamed)?)?;
    let name = path.file_name().ok_or_else(unnamed)?;
    let short = format!("/proc/self/fd/{}", dir.as_raw_fd());
    call(&Path::new(&short).join(name))
}

/// The notices and hellos read so far.
#[derive(Default)]
struct Received {
    notices: Vec<Notice>,
    hellos: BTreeSet<String>,
}

impl Received {
    /// Waits for a message, then reads all further messages that are there.
    fn read(&mut self, socket: &UnixDatagram) -> io::Result<()> {
        let mut buffer = vec![0; MESSAGE_MAX + 1_024];
        let mut count = 0;
        socket.set_nonblocking(false)?;
        loop {
            match socket.recv(&mut buffer) {
                Ok(length) => self.take(&buffer[..length]),
                Err(error) if count > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            count += 1;
            if count >= LAGGED_AFTER {
                self.notices.push(Notice::Lagged);
                break;
            }
            socket.set_nonblocking(true)?;
        }
        Ok(())
    }

    /// A malformed message counts as `Lagged`: there is news.
    fn take(&mut self, message: &[u8]) {
        if self.parse(message).is_none() {
            self.notices.push(Notice::Lagged);
        }
    }

    fn parse(&mut self, mut message: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = message.split_first() {
            message = rest;
            match *kind {
                RECOVERY => self.notices.push(Notice::Recovery),
                LAGGED => self.notices.push(Notice::Lagged),
                SETTLED => {
                    let (id, rest) = message.split_first_chunk::<16>()?;
                    message = rest;
                    let op_id = OpId(Uuid::from_bytes(*id));
                    self.notices.push(Notice::Settled(op_id));
                }
                DUE | HELLO => {
                    let (length, rest) = message.split_first()?;
                    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
                    message = rest;
                    let name = std::str::from_utf8(name).ok()?;
                    if *kind == HELLO {
                        self.hellos
                            .insert(is_socket_name(name).then(|| name.to_owned())?);
                    } else {
                        self.notices.push(Notice::Due(Domain::new(name).ok()?));
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
}

fn write(message: &mut Vec<u8>, notice: &Notice) {
    match notice {
        Notice::Due(domain) => {
            message.push(DUE);
            text(message, domain.as_str());
        }
        Notice::Settled(op_id) => {
            message.push(SETTLED);
            message.extend_from_slice(op_id.0.as_bytes());
        }
        Notice::Recovery => message.push(RECOVERY),
        Notice::Lagged => message.push(LAGGED),
    }
}

/// Names are short: domains have at most 128 bytes.
fn text(message: &mut Vec<u8>, text: &str) {
    message.push(u8::try_from(text.len()).unwrap_or(0));
    message.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let mut message = vec![HELLO];
        text(&mut message, name);
        message
    }

    #[test]
    fn core_16_only_names_of_our_own_sockets_are_taken_from_a_message() {
        let mut heard = Received::default();
        heard.take(&hello("4711-0.sock"));
        for name in [
            "",
            ".sock",
            "1.sock",
            "-1.sock",
            "1-.sock",
            "1-2.sock/../../x",
            "../1-2.sock",
            "/etc/passwd",
            "/tmp/1-2.sock",
            "next",
            "run",
            "1-2",
            "a-b.sock",
            "1-2.sock\0",
            "1-+2.sock",
        ] {
            heard.take(&hello(name));
            assert_eq!(heard.notices.pop(), Some(Notice::Lagged), "{name:?}");
        }
        assert_eq!(Vec::from_iter(heard.hellos), ["4711-0.sock"]);
    }

    #[test]
    fn core_16_nothing_but_a_socket_is_removed() {
        let dir = std::env::temp_dir().join(format!("clinch-socket-{}", std::process::id()));
        fs::create_dir(&dir).expect("a folder");
        let (file, link) = (dir.join("1-1.sock"), dir.join("1-2.sock"));
        fs::write(&file, "kept").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let news = PeerSocket::bind(&dir, |_| {}).expect("bound");
        // Both names get a hello, but no process listens behind them.
        assert!(file.exists() && link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("read"), "kept");
        let own = dir.join(&news.own);
        let mode = fs::metadata(&own).expect("bound").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        news.close();
        assert!(!own.exists());
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn what_is_written_is_heard() {
        let domain = Domain::new("payments").expect("valid");
        let notices = vec![
            Notice::Due(domain),
            Notice::Settled(OpId(Uuid::from_u128(7))),
            Notice::Recovery,
            Notice::Lagged,
        ];
        let mut message = Vec::new();
        notices
            .iter()
            .for_each(|notice| write(&mut message, notice));
        let mut heard = Received::default();
        heard.take(&message);
        assert_eq!(heard.notices, notices);
        heard.take(b"?");
        assert_eq!(heard.notices.last(), Some(&Notice::Lagged));
    }
}
