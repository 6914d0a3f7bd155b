//! Geometry: parses what the programs of a file system print about it into a short map. Pure
//! functions.

use std::collections::BTreeMap;

/// Parses the output of `mkfs.xfs`: sections of `key=value` words. The same key in another section
/// means something else.
///
///     meta-data=/dev/loop0   isize=512    agcount=4, agsize=524288 blks
///     log      =internal log bsize=4096   blocks=16384, version=2
pub fn xfs(output: &str) -> BTreeMap<String, String> {
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
    let mut geometry = BTreeMap::new();
    let mut section = "";
    // A blank may stand before the sign: `bsize  =4096`.
    for line in output.lines() {
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
                geometry.entry(name.to_string()).or_insert_with(|| value.to_string());
            }
        }
    }
    geometry
}

/// Parses the output of `dumpe2fs -h`: lines of `key: value`.
pub fn ext(output: &str) -> BTreeMap<String, String> {
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
    keys(output, kept)
}

/// Parses the output of `mkfs.btrfs`: lines of `key: value`, those of block groups indented.
pub fn btrfs(output: &str) -> BTreeMap<String, String> {
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
    keys(output, kept)
}

/// The number of free extents in the output of `e2freefrag`: `Num. free extent: 12`.
pub fn free_extents_ext(output: &str) -> Option<u64> {
    number_after(output, "Num. free extent:")
}

/// The number of free extents in the output of `xfs_db -c 'freesp -s'`: `total free extents 7`.
pub fn free_extents_xfs(output: &str) -> Option<u64> {
    number_after(output, "total free extents ")
}

/// The number of free extents in the output of `btrfs inspect-internal dump-tree`, which has it for
/// each block group: `free space info extent count 3 flags 0`.
pub fn free_extents_btrfs(output: &str) -> Option<u64> {
    let counts =
        output.lines().filter_map(|line| number_after(line, "free space info extent count"));
    counts.reduce(|sum, count| sum + count)
}

fn number_after(output: &str, label: &str) -> Option<u64> {
    let (_, rest) = output.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The kept keys in lower case, their words joined by underscores.
fn keys(output: &str, kept: &[&str]) -> BTreeMap<String, String> {
    let lines = output.lines().filter_map(|line| line.split_once(':'));
    let kept = lines.filter(|(key, value)| kept.contains(&key.trim()) && !value.trim().is_empty());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    kept.map(|(key, value)| (key.trim().to_lowercase().replace(' ', "_"), words(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(geometry: BTreeMap<String, String>, expected: expect_test::Expect) {
        let lines: String =
            geometry.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn keys_of_mkfs_xfs_are_distinguished_by_section() {
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
    fn free_extents_are_read_from_the_output_of_each_program() {
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
