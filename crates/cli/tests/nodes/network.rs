//! Kernel network namespaces as machines: each has a wire to the servers and one to the provider.

use std::process::Command;

/// Why namespaces cannot be used here.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    let there = Command::new("ip").args(["netns", "list"]).output();
    let there = there.is_ok_and(|output| output.status.success());
    (!there).then(|| "`ip netns` does not work here; install iproute2".to_owned())
}

fn ip(arguments: &str) {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.expect("ip runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "ip {arguments}: {said}");
}

/// Machines on two wires; removed with the test.
pub(crate) struct Network {
    /// Namespace names are global on the machine, so they contain the process id.
    tag: String,
    /// The first three numbers of every address.
    base: String,
    machines: usize,
}

impl Network {
    pub(crate) fn new(machines: usize) -> Self {
        let pid = std::process::id();
        let network = Self {
            tag: format!("{pid:x}"),
            base: format!("10.{}.{}", 200 + pid / 250 % 50, pid % 250),
            machines,
        };
        let (servers, provider) = (network.servers(), network.provider());
        for (name, address) in [("s", servers), ("p", provider)] {
            let bridge = network.bridge(name);
            ip(&format!("link add {bridge} type bridge"));
            ip(&format!("addr add {address}/25 dev {bridge}"));
            ip(&format!("link set {bridge} up"));
        }
        for machine in 0..machines {
            network.plug(machine);
        }
        network
    }

    fn plug(&self, machine: usize) {
        let space = self.space(machine);
        ip(&format!("netns add {space}"));
        ip(&format!("-n {space} link set lo up"));
        for (name, last) in [("s", 11 + machine), ("p", 139 + machine)] {
            let (wire, bridge) = (self.wire(name, machine), self.bridge(name));
            let base = &self.base;
            ip(&format!(
                "link add {wire} type veth peer name {name}0 netns {space}"
            ));
            ip(&format!("link set {wire} master {bridge}"));
            ip(&format!("link set {wire} up"));
            ip(&format!("-n {space} addr add {base}.{last}/25 dev {name}0"));
            ip(&format!("-n {space} link set {name}0 up"));
        }
    }

    fn bridge(&self, name: &str) -> String {
        format!("clb{name}{}", self.tag)
    }

    fn wire(&self, name: &str, machine: usize) -> String {
        format!("clw{name}{machine}{}", self.tag)
    }

    fn space(&self, machine: usize) -> String {
        format!("clinch-{}-{machine}", self.tag)
    }

    /// The address of the servers.
    pub(crate) fn servers(&self) -> String {
        format!("{}.1", self.base)
    }

    /// The address of the provider.
    pub(crate) fn provider(&self) -> String {
        format!("{}.129", self.base)
    }

    /// The machine that has this address.
    pub(crate) fn machine_at(&self, address: &str) -> usize {
        let last = address
            .rsplit('.')
            .next()
            .and_then(|last| last.parse().ok());
        let last: usize = last.expect("an address");
        last.checked_sub(139).expect("a machine of ours")
    }

    /// The command that runs a program on a machine.
    pub(crate) fn exec(&self, machine: usize) -> [String; 4] {
        ["ip", "netns", "exec", &self.space(machine)].map(str::to_owned)
    }

    /// Cuts the wire to the servers; neither side gets an error.
    pub(crate) fn cut(&self, machine: usize) {
        ip(&format!("link set {} down", self.wire("s", machine)));
    }

    pub(crate) fn heal(&self, machine: usize) {
        ip(&format!("link set {} up", self.wire("s", machine)));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let mut undo = Vec::new();
        for machine in 0..self.machines {
            undo.push(format!("netns del {}", self.space(machine)));
            undo.push(format!("link del {}", self.wire("s", machine)));
            undo.push(format!("link del {}", self.wire("p", machine)));
        }
        undo.push(format!("link del {}", self.bridge("s")));
        undo.push(format!("link del {}", self.bridge("p")));
        for arguments in undo {
            // Usually the wire is removed together with its namespace.
            let _ = Command::new("ip").args(arguments.split(' ')).output();
        }
    }
}
