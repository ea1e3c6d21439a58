//! Starts children from a thread that lives as long as the process: they are told to die
//! with the thread that started them, and a test's thread ends with its test.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Order = (Command, Sender<io::Result<Child>>);

pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static NURSERY: OnceLock<Sender<Order>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    let gone = |_| io::Error::other("the thread that starts servers is gone");
    nursery
        .send((command, reply))
        .map_err(|_| io::Error::other("the thread that starts servers is gone"))?;
    answer.recv().map_err(gone)?
}
