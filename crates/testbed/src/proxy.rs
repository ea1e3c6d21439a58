//! A way to a server that can go dark: nothing arrives, nothing is refused, nobody is told.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// Listens on a port of its own and passes every byte on. While it is dark it holds what it was
/// given, like a network that lost its route: connections are taken and stay open, and nothing
/// comes out at the other end until there is light again. Then all of it arrives, late, also
/// from callers that have gone meanwhile.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    light: Arc<Light>,
}

#[derive(Default)]
struct Light {
    is_dark: Mutex<bool>,
    changed: Condvar,
}

impl Light {
    fn wait(&self) {
        let mut is_dark = self.is_dark.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_dark {
            let woken = self.changed.wait(is_dark);
            is_dark = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Proxy {
    /// To the server at this port of the loopback address.
    pub fn to(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let proxy = Self {
            port: listener.local_addr()?.port(),
            light: Arc::default(),
        };
        let light = proxy.light.clone();
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let light = light.clone();
                thread::spawn(move || connect(caller, server, &light));
            }
        });
        Ok(proxy)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An address of the server, by way of this proxy.
    pub fn address(&self, url: &str, server: u16) -> String {
        url.replace(&format!(":{server}"), &format!(":{}", self.port))
    }

    /// From now on nothing arrives, or everything again.
    pub fn set_dark(&self, is_dark: bool) {
        let light = &self.light;
        *light.is_dark.lock().unwrap_or_else(PoisonError::into_inner) = is_dark;
        light.changed.notify_all();
    }
}

fn connect(caller: TcpStream, server: u16, light: &Arc<Light>) {
    light.wait();
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
        return;
    };
    let (Ok(from), Ok(to)) = (caller.try_clone(), server.try_clone()) else {
        return;
    };
    let back = light.clone();
    thread::spawn(move || pass_on(server, from, &back));
    pass_on(caller, to, light);
}

/// Until one of them ends, which is passed on as well.
fn pass_on(mut from: TcpStream, mut to: TcpStream, light: &Light) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes);
        light.wait();
        let passed = match read {
            Ok(0) | Err(_) => break,
            Ok(count) => to.write_all(&bytes[..count]),
        };
        if passed.is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
