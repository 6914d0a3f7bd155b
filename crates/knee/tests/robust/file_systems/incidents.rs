//! The experiments of the five incidents, each at the size `tiny`: every path of them runs, and the
//! report has the form that the incident's readers know. Most need root; without a program that
//! an experiment starts it is skipped.

use std::path::Path;

use crate::home::Home;
use crate::skip::{is_root, skip};

/// Whether this host can run an experiment that makes file systems and starts these programs.
fn can(test: &str, programs: &[&str]) -> bool {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        skip(test, "only root with a loop driver may make file systems");
        return false;
    }
    let has = |program: &str| {
        let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
        folders.iter().any(|folder| Path::new(folder).join(program).exists())
    };
    match programs.iter().find(|program| !has(program)) {
        Some(missing) => {
            skip(test, &format!("there is no {missing}"));
            false
        }
        None => true,
    }
}

/// Runs an experiment at the size `tiny`: no run fails, and these texts are in the report.
#[track_caller]
fn check(experiment: &str, points: usize, parts: &[&str]) {
    let home = Home::new();
    let ended = home.run(&format!("run {experiment} --size tiny --seed 7"));
    assert_eq!(ended.status.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let record = home.record();
    assert_eq!(record.record.experiment.size, "tiny");
    assert_eq!(record.record.points.len(), points);
    assert!(record.runs.iter().all(|run| run.finished()));
    for part in parts {
        assert!(ended.stdout.contains(part), "no '{part}' in:\n{}", ended.stdout);
    }
    home.check_nothing_is_left();
}

#[test]
fn incident_1_lists_passes_as_fs_mark_does() {
    if can("incident 1", &["mkfs.xfs", "fs_mark"]) {
        check(
            "incident-1-create-xfs",
            4,
            &["at the size tiny", "tuned does:", "FSUse%  Count  Size  Files/sec  App Overhead"],
        );
    }
}

#[test]
fn incident_2_is_the_table_of_the_bot() {
    if can("incident 2", &["mkfs.xfs", "stress-ng"]) {
        check(
            "incident-2-xattr-log",
            9,
            &["time.system_time", "time.voluntary_context_switches", "%stddev", "bogo_ops_per_s"],
        );
    }
}

#[test]
fn incident_3_has_options_down_and_counts_of_interrupts() {
    if can("incident 3", &["mkfs.xfs", "xfs_repair"]) {
        check(
            "incident-3-repair-shootdowns",
            8,
            &[
                "filled by 200 operations of create_files",
                "options=-o ag_stride=-1",
                "interrupts.TLB",
            ],
        );
    }
}

#[test]
fn incident_4_draws_all_file_systems() {
    if can("incident 4", &["mkfs.xfs", "mke2fs"]) {
        let parts = ["page_fault_shared_file size_bytes=1048576, threads", "served by the ext4"];
        check("incident-4-shared-faults", 6, &parts);
    }
}

#[test]
fn incident_5_has_sum_wall_and_single_calls_of_each_lock() {
    if !Path::new("/dev/shm").is_dir() {
        return skip("incident 5", "there is no /dev/shm");
    }
    let parts = ["sum over", "wall,", "a call,", "20 operations per task, /dev/shm, 8 tasks"];
    check("incident-5-file-locks", 12, &parts);
}

#[test]
fn each_run_gets_the_whole_image_whatever_the_last_one_did_to_its_copy() {
    if !can("copies of an image", &["mkfs.xfs", "xfs_db"]) {
        return;
    }
    let home = Home::new();
    let experiment = "blocks = 2\n[image]\nfile_system = { kind = 'xfs' }\nsize = '300M'\n\
        workload = 'create_files'\ntasks = 3\noperations_per_task = 100\n[[load]]\n[load.command]\n\
        name = 'look'\nshell = true\nrun = 'xfs_db -r -c \"sb 0\" -c \"p icount\" -c \"p ifree\" {image} && \
        printf x > {image}'\n\
        [[load.command.metric]]\nname = 'inodes'\nregex = '^icount = (\\d+)'\n\
        [[load.command.metric]]\nname = 'free'\nregex = '^ifree = (\\d+)'\n";
    std::fs::write(home.path("image.toml"), experiment).unwrap();
    let ended = home.run("run image.toml");
    assert_eq!(ended.status.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let record = home.record();
    let filled = record.record.image.as_ref().expect("what the image was is told");
    assert_eq!(filled.operations, 300);
    assert!(filled.bytes_used > 0 && filled.file_system.kind == "xfs");
    for run in &record.runs {
        let used = run.value("inodes").unwrap() - run.value("free").unwrap();
        // The files, a directory for each task, two above them, and three of the file system's own.
        assert!((303.0..=310.0).contains(&used), "{used} inodes are used");
    }
    home.check_nothing_is_left();
}

#[test]
fn sizes_and_images_that_cannot_be_meant_are_refused() {
    let home = Home::new();
    let check = |arguments: &str, part: &str| {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    };
    check("run incident-5-file-locks --size reportet", "reportet");
    check("run getppid --size reported", "--fs");
    check("run incident-1-create-xfs --fs ext4", "already has its own file system");
    for text in ["size = '1G'\n", "[sizes.here]\nblocks = 3\n"] {
        let toml = format!("{text}[[load]]\nworkload = 'brk'\n");
        std::fs::write(home.path("e.toml"), toml).unwrap();
        check("run e.toml", "the size `here` is the file as written");
    }
    let with = |image: &str| {
        let toml = format!("[image]\n{image}\n[[load]]\ncommand = {{ run = 'ls {{image}}' }}\n");
        std::fs::write(home.path("e.toml"), toml).unwrap();
    };
    let fill = "workload = 'create_files'\ntasks = 1\noperations_per_task = 1";
    with(&format!("size = '1G'\nfile_system = {{ kind = 'zfs' }}\n{fill}"));
    check("run e.toml", "zfs");
    with(&format!("size = '1G'\nfile_system = {{ kind = 'tmpfs' }}\n{fill}"));
    check("run e.toml", "tmpfs has no image");
    with(
        "size = '1G'\nfile_system = { kind = 'xfs' }\nworkload = 'creat_files'\ntasks = 1\noperations_per_task = 1",
    );
    check("run e.toml", "did you mean \"create_files\"");
    with(&format!("size = 'much'\nfile_system = {{ kind = 'xfs' }}\n{fill}"));
    check("run e.toml", "size of the image");
    std::fs::write(home.path("e.toml"), "[image]\nsize = '1G'\nfile_system = { kind = 'xfs' }\nworkload = 'create_files'\ntasks = 1\noperations_per_task = 1\n[[load]]\nworkload = 'brk'\n").unwrap();
    check("run e.toml", "none of its commands uses {image}");
}

#[test]
fn an_experiment_with_sizes_is_resumed() {
    for size in ["here", "more"] {
        let home = Home::new();
        let toml = "blocks = 30\naxes = { cpus = 1, seconds = 0.05 }\n[[load]]\n\
                    workload = 'getppid'\n[sizes.more]\naxes.seconds = 0.06\n";
        std::fs::write(home.path("sized.toml"), toml).unwrap();
        let run = format!("run sized.toml --size {size} --seed 3");
        let mut running = home.start(&mut home.knee(&format!("{run} --json")));
        running.wait_for_runs(1);
        running.signal(libc::SIGINT);
        assert_eq!(running.end().status.code(), Some(130));
        let ended = home.run(&format!("{run} --resume"));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let record = home.record();
        assert_eq!(record.record.experiment.size, size);
        assert_eq!(record.runs.len(), 30);
    }
}

#[test]
fn two_records_of_equal_variants_are_compared_variant_by_variant() {
    let home = Home::new();
    let run = "run getppid --cpus 1 --seconds 0.05 --blocks 4 --variant a= --variant b=idle_ns=100";
    for _ in 0..2 {
        assert_eq!(home.run(run).status.code(), Some(0));
    }
    let mut ids: Vec<String> = home.records().into_iter().map(|r| r.record.id).collect();
    ids.sort();
    let ended = home.run(&format!("compare {} {}", ids[0], ids[1]));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for variant in ["a", "b"] {
        let baseline = format!("{}:{variant} (baseline)", ids[0]);
        assert!(ended.stdout.contains(&baseline), "{}", ended.stdout);
    }
}
