//! Lines of kernels whose counts are written here, so that no kernel is booted: what is said, accepted, and gone again.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::home::{Ended, Home};

/// The file of a line with two workloads.
pub const FILE: &str = "of = \"kernels\"\ncpus = [1, 2]\noperations = 64\nsmallest_effect = 0.02\n\
                        workloads = [\"stat\", \"dup_close\"]\n";

/// What a kernel counts: instructions of stat in each boot, transfers of its line, and instructions of dup_close.
pub type Counts = ([f64; 2], f64, f64);

/// Three kernels: stat takes more instructions and needs a line more on the second, and not on the third.
pub const KERNELS: [(&str, Counts); 3] = [
    ("6.1.0-57", ([2511.0, 2511.0], 0.0, 891.0)),
    ("6.12.43", ([2611.0, 2612.0], 2.0, 700.0)),
    ("6.19.14", ([2511.0, 2511.0], 0.0, 700.0)),
];

/// The file of counts of these kernels.
pub fn points(kernels: &[(&str, Counts)]) -> String {
    let at = "2026-11-29T17:00:00Z";
    let mut text = format!(
        r#"{{"event":"begun","version":1,"knee":"1","at":"{at}","experiment":{{"cpus":"1,2","operations":"64"}}}}"#
    );
    for (name, (stat, transfers, dup_close)) in kernels {
        write!(
            text,
            "\n{{\"event\":\"kernel\",\"name\":\"{name}\",\"image\":\"/k/{name}\",\"sha256\":\"{name}\",\
             \"release\":\"{name}\",\"at\":\"{at}\"}}"
        )
        .unwrap();
        for boot in [1, 2] {
            write!(
                text,
                "\n{{\"event\":\"boot\",\"kernel\":\"{name}\",\"boot\":{boot},\"at\":\"{at}\",\"up_s\":9.0,\
                 \"knee\":\"1\",\"emulator\":\"QEMU 7.2\",\"command_line\":\"\"}}"
            )
            .unwrap();
            for cpus in [1, 2] {
                let lines = if cpus == 2 { *transfers } else { 0.0 };
                let of_boot = stat[boot - 1];
                text += &counted(name, boot, "stat", cpus, of_boot, lines);
                text += &counted(name, boot, "dup_close", cpus, *dup_close, 0.0);
            }
        }
    }
    text + "\n"
}

fn counted(
    kernel: &str,
    boot: usize,
    workload: &str,
    cpus: u32,
    instructions: f64,
    transfers: f64,
) -> String {
    let line = format!(
        r#"{{"place":"dentry","sharing":"true","kind":"lock","member":"dentry.d_lockref","transfers":[{transfers},{transfers}],"owned":1,"copied":0,"bursts":{transfers},"reads":1,"writes":{transfers},"atomics":0,"bursts_again":{transfers},"is_steady":true,"lines":1,"one_line":{{"transfers":[0,0],"reads":0,"writes":0,"atomics":0,"held":0,"wait":"none"}},"is_placed_by_chance":false,"members":[],"background":[]}}"#
    );
    let lines = if transfers > 0.0 { line } else { String::new() };
    let walk = instructions - 500.0;
    format!(
        "\n{{\"event\":\"counted\",\"kernel\":\"{kernel}\",\"boot\":{boot},\"workload\":\"{workload}\",\"cpus\":{cpus},\
         \"semantics\":1,\"seconds\":1.5,\"counts\":{{\"operation\":\"{workload}\",\"on\":\"{kernel}\",\"tasks\":{cpus},\
         \"window_operations\":[64,128],\"instructions\":{{\"kernel\":{instructions},\"kernel_mean\":{instructions},\
         \"user\":100,\"kernel_again\":{instructions}}},\"lines\":[{lines}],\"least_transfers\":0.03125,\"ceilings\":[],\
         \"warnings\":[]}},\"functions\":{{\"link_path_walk\":{walk},\"entry\":500}}}}"
    )
}

fn line(kernels: &[(&str, Counts)]) -> Home {
    let home = Home::new();
    fs::write(home.path("line.toml"), FILE).unwrap();
    fs::write(home.path("line.points.ndjson"), points(kernels)).unwrap();
    home
}

fn done(home: &Home, words: &str) -> Ended {
    let ended = home.run(words);
    assert_eq!(ended.status.code(), Some(0), "{words}: {}", ended.stderr);
    ended
}

/// The changes by their ids, with what became of them.
fn changes(home: &Home) -> Vec<(String, String)> {
    let answer = done(home, "watch show line.toml --json").stdout;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let changes = answer["changes"].as_array().unwrap().iter();
    changes.map(|change| (text(&change["id"]), text(&change["is"]))).collect()
}

#[test]
fn a_change_is_open_until_it_is_accepted_or_gone_again() {
    let home = line(&KERNELS[..2]);
    let is = |id: &str, is: &str| (id.to_string(), is.to_string());
    let (stat, dup_close) = ("6.12.43/stat", "6.12.43/dup_close");
    assert_eq!(changes(&home), [is(stat, "open"), is(dup_close, "open")]);
    let text = done(&home, "watch show line.toml").stdout;
    for said in ["2611.5", "+4.0 %", "link_path_walk +101", "new: dentry.d_lockref (0 "] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let open = home.run("watch check line.toml");
    assert_eq!(open.status.code(), Some(3));
    // Fewer instructions are no change for the worse.
    assert!(open.stderr.contains(stat) && !open.stderr.contains(dup_close), "{}", open.stderr);

    assert_eq!(home.run("watch ack line.toml 6.12.43/x --why known").status.code(), Some(2));
    done(&home, "watch ack line.toml 6.12.43/s --why known");
    assert_eq!(changes(&home), [is(stat, "accepted"), is(dup_close, "open")]);
    done(&home, "watch check line.toml");
    done(&home, "watch ack line.toml 6.12.43 --why release");
    assert_eq!(changes(&home), [is(stat, "accepted"), is(dup_close, "accepted")]);

    let home = line(&KERNELS);
    let back = [is(stat, "gone_again"), is(dup_close, "open"), is("6.19.14/stat", "open")];
    assert_eq!(changes(&home), back);
    done(&home, "watch check line.toml");
}

#[test]
fn a_count_that_does_not_repeat_is_not_said() {
    let unsteady = ("6.12.43", ([2511.0, 2711.0], 0.0, 891.0));
    let home = line(&[KERNELS[0], unsteady]);
    let stat = ("6.12.43/stat".to_string(), "not_confirmed".to_string());
    assert_eq!(changes(&home), [stat]);
    done(&home, "watch check line.toml");
    let text = done(&home, "watch show line.toml").stdout;
    assert!(text.contains("stat: 2511 to 2711 instructions"), "{text}");
}

#[test]
fn a_line_of_kernels_says_what_it_cannot_take() {
    let home = line(&KERNELS);
    let check = |words: &str, said: &str| {
        let ended = home.run(words);
        assert_eq!(ended.status.code(), Some(2), "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words}: {}", ended.stderr);
    };
    check("watch add line.toml", "name kernels");
    check("watch add line.toml --every a..b", "--every");
    check("watch add line.toml a/b=line.toml", "without slashes");
    check("watch add line.toml 6.1.0-57=line.toml", "another kernel called 6.1.0-57");
    check("watch init new.toml --kernels --workloads nothing", "nothing");
    check("watch init new.toml --kernels --cpus 0", "from 1 to 64");
    check("watch init new.toml --kernels --command x", "--command");
    check("watch init new.toml", "--command");
    fs::write(home.path("line.toml"), FILE.replace("64", "128")).unwrap();
    check("watch show line.toml", "operations was '64' and is '128'");
    fs::write(home.path("line.toml"), FILE.replace("cpus", "cpu")).unwrap();
    check("watch show line.toml", "not the file of a line of kernels");
}
