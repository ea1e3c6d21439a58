//! Refuses network file systems. SQLite shares its log through mapped memory and locks, which do
//! not work across machines: two machines would overwrite each other's commits.

use std::path::Path;

use clinch_core::{Error, ErrorKind, Result};

/// Network file systems, by the type number that `statfs` returns.
const NETWORKS: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x6573_5546, "FUSE"),
];

/// Refuses a folder on a network file system.
pub(crate) fn check(dir: &Path) -> Result<()> {
    let stat = rustix::fs::statfs(dir).map_err(|error| {
        let message = "the folder of the database cannot be read; check that it exists";
        let error = std::io::Error::from(error);
        Error::new(ErrorKind::Unavailable, message).caused_by(error)
    })?;
    // The integer type of `f_type` differs between systems; its low 32 bits are the listed number.
    refuse(stat.f_type as u32)
}

fn refuse(number: u32) -> Result<()> {
    match NETWORKS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => {
            let message = "the database is on a network file system, where SQLite's locks do not \
                           hold; put it on a local disk, or use a database server";
            Err(Error::new(ErrorKind::Unsupported, message).with("file_system", name))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_7_a_network_file_system_is_refused_by_name() {
        let refused = refuse(0x6969).expect_err("NFS");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert_eq!(refused.context("file_system"), Some("NFS"));
        // ext4, xfs, btrfs, tmpfs, overlayfs.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert!(refuse(local).is_ok(), "{local:#x}");
        }
        assert!(check(&std::env::temp_dir()).is_ok());
    }
}
