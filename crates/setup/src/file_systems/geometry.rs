//! Geometry: what the programs of a file system say about the one they made, as a short map.
//! Pure functions of what they print.

use std::collections::BTreeMap;

/// What `mkfs.xfs` says: sections of `key=value` words, the later ones of a name in another
/// section of another meaning.
///
///     meta-data=/dev/loop0   isize=512    agcount=4, agsize=524288 blks
///     log      =internal log bsize=4096   blocks=16384, version=2
pub fn xfs(said: &str) -> BTreeMap<String, String> {
    const KEPT: &[&str] = &[
        "agcount",
        "agsize",
        "bigtime",
        "crc",
        "finobt",
        "isize",
        "reflink",
        "rmapbt",
        "sectsz",
        "sparse",
        "data.bsize",
        "data.blocks",
        "data.sunit",
        "data.swidth",
        "log.blocks",
        "log.version",
        "naming.bsize",
    ];
    let mut found = BTreeMap::new();
    let mut section = "";
    // A blank may stand before the sign: `bsize  =4096`.
    for line in said.lines() {
        let (head, rest) = line.split_once('=').unwrap_or((line, ""));
        if !head.trim().is_empty() {
            section = head.trim();
        }
        let words = rest.replace(',', " ");
        for word in words.split_whitespace() {
            let Some((key, value)) = word.split_once('=') else { continue };
            let long = format!("{section}.{key}");
            let kept = KEPT.iter().find(|name| **name == long || **name == key);
            if let Some(name) = kept.filter(|_| !value.is_empty()) {
                found.entry(name.to_string()).or_insert_with(|| value.to_string());
            }
        }
    }
    found
}

/// What `dumpe2fs -h` says: lines of `key: value`.
pub fn ext(said: &str) -> BTreeMap<String, String> {
    let kept = &[
        "Filesystem features",
        "Block size",
        "Block count",
        "Inode count",
        "Inode size",
        "Blocks per group",
        "Inodes per group",
        "Flex block group size",
        "Reserved block count",
        "Total journal size",
        "Journal size",
        "Journal features",
    ];
    keys(said, kept)
}

/// What `mkfs.btrfs` says: lines of `key: value`, those of block groups indented.
pub fn btrfs(said: &str) -> BTreeMap<String, String> {
    let kept = &[
        "Node size",
        "Sector size",
        "Data",
        "Metadata",
        "System",
        "Zoned device",
        "Checksum",
        "Incompat features",
        "Runtime features",
        "Features",
    ];
    keys(said, kept)
}

/// What `e2freefrag` says: `Num. free extent: 12`.
pub fn free_extents_ext(said: &str) -> Option<u64> {
    number_after(said, "Num. free extent:")
}

/// What `xfs_db -c 'freesp -s'` says: `total free extents 7`.
pub fn free_extents_xfs(said: &str) -> Option<u64> {
    number_after(said, "total free extents ")
}

/// What `btrfs inspect-internal dump-tree` says of each block group: `free space info extent
/// count 3 flags 0`.
pub fn free_extents_btrfs(said: &str) -> Option<u64> {
    let counts = said.lines().filter_map(|line| number_after(line, "free space info extent count"));
    counts.reduce(|sum, count| sum + count)
}

fn number_after(said: &str, what: &str) -> Option<u64> {
    let (_, rest) = said.split_once(what)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The kept keys in small letters, words joined by a low line.
fn keys(said: &str, kept: &[&str]) -> BTreeMap<String, String> {
    let lines = said.lines().filter_map(|line| line.split_once(':'));
    let kept = lines.filter(|(key, value)| kept.contains(&key.trim()) && !value.trim().is_empty());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    kept.map(|(key, value)| (key.trim().to_lowercase().replace(' ', "_"), words(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: BTreeMap<String, String>, expected: expect_test::Expect) {
        let lines: String = found.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn words_of_mkfs_xfs_are_told_apart_by_section() {
        check(
            xfs("meta-data=/dev/loop0             isize=512    agcount=4, agsize=524288 blks\n\
                 \x20        =                       sectsz=512   attr=2, projid32bit=1\n\
                 \x20        =                       crc=1        finobt=1, sparse=1, rmapbt=0\n\
                 data     =                       bsize=4096   blocks=2097152, imaxpct=25\n\
                 \x20        =                       sunit=0      swidth=0 blks\n\
                 naming   =version 2              bsize=4096   ascii-ci=0, ftype=1\n\
                 log      =internal log           bsize=4096   blocks=16384, version=2\n"),
            expect_test::expect![[r#"
                agcount=4
                agsize=524288
                crc=1
                data.blocks=2097152
                data.bsize=4096
                data.sunit=0
                data.swidth=0
                finobt=1
                isize=512
                log.blocks=16384
                log.version=2
                naming.bsize=4096
                rmapbt=0
                sectsz=512
                sparse=1
            "#]],
        );
    }

    #[test]
    fn extents_of_free_space_are_counted_by_the_programs() {
        assert_eq!(free_extents_ext("Avg. free extent: 4 KB\nNum. free extent: 12\n"), Some(12));
        assert_eq!(free_extents_xfs("total free extents 7\ntotal free blocks 59\n"), Some(7));
        let tree = "\t\tfree space info extent count 3 flags 0\n\
                    \t\tfree space info extent count 1 flags 0\n";
        assert_eq!(free_extents_btrfs(tree), Some(4));
        assert_eq!(free_extents_btrfs("ERROR: no such tree"), None);
    }

    #[test]
    fn lines_of_dumpe2fs_and_mkfs_btrfs_become_keys() {
        check(
            ext("dumpe2fs 1.47.0 (5-Feb-2023)\nFilesystem features:      has_journal   extent\n\
                 Block size:               4096\nJournal start:            1\n"),
            expect_test::expect![[r#"
                block_size=4096
                filesystem_features=has_journal extent
            "#]],
        );
        check(
            btrfs(
                "Label:              (null)\nNode size:          16384\nBlock group profiles:\n\
                   \x20 Data:             single            8.00MiB\n\
                   \x20 Metadata:         DUP             256.00MiB\n",
            ),
            expect_test::expect![[r#"
                data=single 8.00MiB
                metadata=DUP 256.00MiB
                node_size=16384
            "#]],
        );
    }
}
