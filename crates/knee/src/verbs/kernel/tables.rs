//! Pages of the kernels just built, and of the kernels in the cache.

use answers::{BuiltKernels, KernelOutcome};
use anyhow::Result;
use guests::kernels::{BuildInfo, BuiltKernel, KeptTree};
use pages::{Block, Page, PageKind, PageTable, Section};
use text::table::{Align, Table};

/// Digits of a commit shown in tables.
const COMMIT_DIGITS: usize = 12;

/// The requested kernels by revision, with outcome and path of the image.
pub fn kernels(outcomes: &[(String, Result<BuiltKernel>)]) -> Page {
    let mut table = Table::new([
        ("revision", Align::Left),
        ("commit", Align::Left),
        ("outcome", Align::Left),
        ("build s", Align::Right),
        ("MB", Align::Right),
        ("image", Align::Left),
    ]);
    for (revision, outcome) in outcomes {
        let dash = || "-".to_string();
        table.row(match outcome {
            Ok(built) => vec![
                revision.clone(),
                short(&built.asked_commit),
                if built.cached { "cached" } else { "built" }.to_string(),
                // The seconds of an earlier build are not those of this command.
                if built.cached { dash() } else { format!("{:.0}", built.build.seconds) },
                megabytes(&built.build),
                built.image_path.display().to_string(),
            ],
            Err(_) => vec![revision.clone(), dash(), "failed".to_string(), dash(), dash(), dash()],
        });
    }
    let table = PageTable::plain("", table, &[]);
    let section =
        (!outcomes.is_empty()).then(|| Section::open("kernels", vec![Block::Table(table)]));
    Page { sections: section.into_iter().collect(), ..Page::new("built kernels", PageKind::List) }
}

/// The kernels that were asked for, as data.
pub fn kernels_built(outcomes: &[(String, Result<BuiltKernel>)]) -> BuiltKernels<&BuiltKernel> {
    fn one((revision, outcome): &(String, Result<BuiltKernel>)) -> KernelOutcome<&BuiltKernel> {
        match outcome {
            Ok(built) => KernelOutcome::Ready(built),
            Err(why) => {
                KernelOutcome::Failed { asked: revision.clone(), error: format!("{why:#}") }
            }
        }
    }
    BuiltKernels(outcomes.iter().map(one).collect())
}

/// The kernels in the cache, and the trees that they were built in.
pub fn kernels_kept(builds: &[BuildInfo], trees: &[KeptTree]) -> Page {
    let mut table = Table::new([
        ("key", Align::Left),
        ("release", Align::Left),
        ("revision", Align::Left),
        ("commit", Align::Left),
        ("MB", Align::Right),
        ("built", Align::Left),
        ("subject", Align::Left),
    ]);
    for build in builds {
        table.row(vec![
            build.key.clone(),
            build.release.clone(),
            build.revision.clone(),
            short(&build.commit),
            megabytes(build),
            build.built.strftime("%Y-%m-%d %H:%M").to_string(),
            build.subject.clone(),
        ]);
    }
    let mut page = Page::new("kernels", PageKind::List);
    if !builds.is_empty() {
        let blocks = vec![Block::Table(PageTable::of_prose(table))];
        page.sections.push(Section::open("kernels", blocks));
    }
    if !trees.is_empty() {
        let blocks = vec![Block::Table(trees_kept(trees))];
        page.sections.push(Section::open("Sources and objects, for the next build", blocks));
    }
    page
}

fn trees_kept(trees: &[KeptTree]) -> PageTable {
    let mut table = Table::new([
        ("key", Align::Left),
        ("MB", Align::Right),
        ("last build", Align::Left),
        ("compiler", Align::Left),
        ("configuration", Align::Left),
    ]);
    for tree in trees {
        let whole = if tree.is_from_whole { "a whole one, " } else { "" };
        table.row(vec![
            tree.key.clone(),
            format!("{:.0}", tree.bytes as f64 / 1e6),
            tree.used.strftime("%Y-%m-%d %H:%M").to_string(),
            tree.compiler.clone(),
            format!("{whole}{}", tree.parts.join(" ")),
        ]);
    }
    PageTable::plain("", table, &[])
}

fn short(commit: &str) -> String {
    commit.chars().take(COMMIT_DIGITS).collect()
}

/// Size of the image in MB.
fn megabytes(build: &BuildInfo) -> String {
    format!("{:.1}", build.image.bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::anyhow;
    use expect_test::expect;
    use host::durable::Seal;
    use text::Style;

    use super::*;

    fn build(revision: &str, seconds: f64) -> BuildInfo {
        let text = |text: &str| text.to_string();
        BuildInfo {
            format: 1,
            key: text("0011223344556677"),
            release: text("6.1.0-g1a2b3c4d5e6f"),
            revision: text(revision),
            commit: "1a2b3c4d5e6f".repeat(4),
            describe: text("v6.1"),
            date: text("2022-12-11"),
            subject: text("Linux 6.1"),
            tree: "2".repeat(40),
            without: None,
            is_uncommitted: false,
            compiler: text("gcc (GCC) 12.2.0"),
            linker: text("GNU ld 2.40"),
            pahole: None,
            fragments: vec![text("boot")],
            from_whole: false,
            unmet: Vec::new(),
            config: Seal { bytes: 9, sha256: text("ab") },
            image: Seal { bytes: 7_340_032, sha256: text("cd") },
            built: "2026-11-21T03:00:00Z".parse().unwrap(),
            seconds,
            knee: text("0.1.0"),
        }
    }

    fn built(revision: &str, cached: bool) -> (String, Result<BuiltKernel>) {
        let folder = PathBuf::from("/c/0011223344556677");
        let built = BuiltKernel {
            asked: revision.to_string(),
            asked_commit: "1a2b3c4d5e6f".repeat(4),
            cached,
            image_path: folder.join("bzImage"),
            folder,
            build: build(revision, 312.4),
        };
        (revision.to_string(), Ok(built))
    }

    #[test]
    fn each_revision_says_how_it_ended_and_where_its_image_is() {
        let failed = ("HEAD~3".to_string(), Err(anyhow!("no")));
        let outcomes = [built("v6.1", false), built("mybranch", true), failed];
        expect![[r#"
            revision  commit        outcome  build s   MB  image
            v6.1      1a2b3c4d5e6f  built        312  7.3  /c/0011223344556677/bzImage
            mybranch  1a2b3c4d5e6f  cached         -  7.3  /c/0011223344556677/bzImage
            HEAD~3    -             failed         -    -  -
        "#]]
        .assert_eq(&pages::terminal(&kernels(&outcomes), Style::PLAIN));
        let json = serde_json::to_value(kernels_built(&outcomes)).unwrap();
        assert_eq!(json[1]["cached"], true);
        assert_eq!(json[0]["release"], "6.1.0-g1a2b3c4d5e6f");
        assert_eq!(json[2]["error"], "no");
        assert_eq!(pages::terminal(&kernels(&[]), Style::PLAIN), "");
    }

    #[test]
    fn kernels_that_are_kept_say_what_they_are() {
        expect![[r#"
            key               release              revision  commit         MB  built             subject
            0011223344556677  6.1.0-g1a2b3c4d5e6f  v6.1      1a2b3c4d5e6f  7.3  2026-11-21 03:00  Linux 6.1
        "#]]
        .assert_eq(&pages::terminal(&kernels_kept(&[build("v6.1", 1.0)], &[]), Style::PLAIN));
    }
}
