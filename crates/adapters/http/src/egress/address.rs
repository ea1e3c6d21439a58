//! Classifies addresses by the registries of special-purpose addresses (RFC 6890 and its
//! successors).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use AddressKind::{Loopback, Never, Private, Public};

/// Which hosts an address can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// Any host on the internet.
    Public,
    /// This machine, by its loopback interface.
    Loopback,
    /// A host nearby, or one behind a nearby translator or tunnel.
    Private,
    /// No host that a call could mean.
    Never,
}

type Ranges<A> = &'static [(A, u8, AddressKind, &'static str)];

const fn v4(a: u8, b: u8, c: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, 0)
}

/// All other addresses are public.
const V4: Ranges<Ipv4Addr> = &[
    (v4(0, 0, 0), 8, Never, "unspecified"),
    (v4(10, 0, 0), 8, Private, "private"),
    (v4(100, 64, 0), 10, Private, "carrier-grade NAT"),
    (v4(127, 0, 0), 8, Loopback, "loopback"),
    (v4(169, 254, 0), 16, Private, "link-local"),
    (v4(172, 16, 0), 12, Private, "private"),
    (v4(192, 0, 0), 24, Private, "protocol assignment"),
    (v4(192, 0, 2), 24, Never, "documentation"),
    (v4(192, 88, 99), 24, Never, "6to4 relay"),
    (v4(192, 168, 0), 16, Private, "private"),
    (v4(198, 18, 0), 15, Private, "benchmarking"),
    (v4(198, 51, 100), 24, Never, "documentation"),
    (v4(203, 0, 113), 24, Never, "documentation"),
    (v4(224, 0, 0), 4, Never, "multicast"),
    (v4(240, 0, 0), 4, Never, "reserved"),
];

const fn v6(a: u16, b: u16, c: u16, d: u16, e: u16, f: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, d, e, f, 0, 0)
}

/// The first match counts. Of the other addresses, `2000::/3` is public and the rest is not
/// assigned.
const V6: Ranges<Ipv6Addr> = &[
    (Ipv6Addr::UNSPECIFIED, 128, Never, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, Loopback, "loopback"),
    (v6(0, 0, 0, 0, 0, 0), 96, Private, "IPv4-compatible"),
    (v6(0, 0, 0, 0, 0, 0xffff), 96, Private, "IPv4-mapped"),
    (v6(0, 0, 0, 0, 0xffff, 0), 96, Private, "IPv4-translated"),
    (v6(0x64, 0xff9b, 0, 0, 0, 0), 96, Private, "NAT64"),
    (v6(0x64, 0xff9b, 1, 0, 0, 0), 48, Private, "NAT64"),
    (v6(0x100, 0, 0, 0, 0, 0), 64, Never, "discard-only"),
    (v6(0x2001, 0, 0, 0, 0, 0), 32, Private, "Teredo"),
    (v6(0x2001, 2, 0, 0, 0, 0), 48, Private, "benchmarking"),
    (v6(0x2001, 0, 0, 0, 0, 0), 23, Never, "protocol assignment"),
    (v6(0x2001, 0xdb8, 0, 0, 0, 0), 32, Never, "documentation"),
    (v6(0x2002, 0, 0, 0, 0, 0), 16, Private, "6to4"),
    (v6(0x3fff, 0, 0, 0, 0, 0), 20, Never, "documentation"),
    (v6(0xfc00, 0, 0, 0, 0, 0), 7, Private, "unique-local"),
    (v6(0xfe80, 0, 0, 0, 0, 0), 10, Private, "link-local"),
    (v6(0xfec0, 0, 0, 0, 0, 0), 10, Private, "site-local"),
    (v6(0xff00, 0, 0, 0, 0, 0), 8, Never, "multicast"),
];

/// The kind of an address, and the kind's name for messages.
///
/// An IPv6 address that contains an IPv4 address (mapped, compatible, NAT64, 6to4) is never public,
/// whichever address it contains, and never callable if the contained address is not.
///
/// ```
/// use clinch_http::{AddressKind, kind_of};
///
/// let (kind, name) = kind_of("::ffff:127.0.0.1".parse().expect("an address"));
/// assert_eq!((kind, name), (AddressKind::Private, "IPv4-mapped"));
/// ```
pub fn kind_of(ip: IpAddr) -> (AddressKind, &'static str) {
    match ip {
        IpAddr::V4(ip) => kind_of_v4(ip),
        IpAddr::V6(ip) => kind_of_v6(ip),
    }
}

fn kind_of_v4(ip: Ipv4Addr) -> (AddressKind, &'static str) {
    if ip.is_broadcast() {
        return (Never, "broadcast");
    }
    let bits = ip.to_bits();
    let within = |base: Ipv4Addr, prefix: u8| (bits ^ base.to_bits()) >> (32 - prefix) == 0;
    let found = V4.iter().find(|(base, prefix, ..)| within(*base, *prefix));
    found.map_or((Public, "public"), |(.., kind, name)| (*kind, *name))
}

fn kind_of_v6(ip: Ipv6Addr) -> (AddressKind, &'static str) {
    let bits = ip.to_bits();
    let within = |base: Ipv6Addr, prefix: u8| (bits ^ base.to_bits()) >> (128 - prefix) == 0;
    let found = V6.iter().find(|(base, prefix, ..)| within(*base, *prefix));
    let Some((.., kind, name)) = found else {
        return match ip.segments() {
            // ISATAP: the interface id is an IPv4 address behind a tunnel.
            [_, _, _, _, 0 | 0x200, 0x5efe, ..] => (Private, "ISATAP"),
            [first, ..] if first >> 13 == 1 => (Public, "public"),
            _ => (Never, "reserved"),
        };
    };
    let carried = match *name {
        "6to4" => bits >> 80,
        "IPv4-compatible" | "IPv4-mapped" | "IPv4-translated" => bits,
        "NAT64" if ip.segments()[2] == 0 => bits,
        _ => return (*kind, name),
    };
    // The last 32 bits are the IPv4 address.
    let low = u32::try_from(carried & u128::from(u32::MAX)).unwrap_or(0);
    match kind_of_v4(Ipv4Addr::from_bits(low)) {
        (Never, _) => (Never, name),
        _ => (*kind, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> AddressKind {
        kind_of(text.parse().expect(text)).0
    }

    #[test]
    fn the_edges_of_every_range_are_where_they_should_be() {
        let edges = [
            ("9.255.255.255", Public),
            ("10.0.0.0", Private),
            ("10.255.255.255", Private),
            ("11.0.0.0", Public),
            ("100.63.255.255", Public),
            ("100.64.0.0", Private),
            ("100.127.255.255", Private),
            ("100.128.0.0", Public),
            ("126.255.255.255", Public),
            ("127.0.0.0", Loopback),
            ("127.255.255.255", Loopback),
            ("128.0.0.0", Public),
            ("169.253.255.255", Public),
            ("169.254.0.0", Private),
            ("169.255.0.0", Public),
            ("172.15.255.255", Public),
            ("172.16.0.0", Private),
            ("172.31.255.255", Private),
            ("172.32.0.0", Public),
            ("192.0.0.255", Private),
            ("192.0.1.0", Public),
            ("192.167.255.255", Public),
            ("192.168.255.255", Private),
            ("192.169.0.0", Public),
            ("198.17.255.255", Public),
            ("198.19.255.255", Private),
            ("198.20.0.0", Public),
            ("223.255.255.255", Public),
            ("224.0.0.0", Never),
            ("255.255.255.255", Never),
            ("0.0.0.0", Never),
            ("1.0.0.0", Public),
            ("::", Never),
            ("::1", Loopback),
            ("::2", Never),
            ("::8.8.8.8", Private),
            ("::ffff:8.8.8.8", Private),
            ("::ffff:0.0.0.0", Never),
            ("64:ff9b::a00:1", Private),
            ("64:ff9b::e000:1", Never),
            ("64:ff9b:1:ffff::1", Private),
            ("64:ff9b:2::1", Never),
            ("2002:7f00:1::", Private),
            ("2002:e000:1::", Never),
            ("2001:1ff:ffff::1", Never),
            ("2001:200::1", Public),
            ("2606:4700::1111", Public),
            ("2606:4700::5efe:a00:1", Private),
            ("3fff:fff::1", Never),
            ("3fff:1000::1", Public),
            ("4000::1", Never),
            ("fbff::1", Never),
            ("fdff::1", Private),
            ("febf::1", Private),
            ("feff::1", Private),
            ("ff02::1", Never),
        ];
        for (text, expected) in edges {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
