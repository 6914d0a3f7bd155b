//! What the golden record says, as values, and as data for programs.

use std::path::Path;

use expect_test::expect;
use records::Opened;
use store::import::{Input, Telling, assemble};

use crate::*;

pub fn golden() -> Opened {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    store::open(&records.join("tests/golden/v1/20261120-115530-7f3a9c")).unwrap()
}

#[test]
fn a_title_says_what_an_operation_was_for_the_knee_that_measured_it() {
    let mut golden = golden();
    golden.record.operations.insert("posix_lock_shared".into(), "what it was then".into());
    let title = &record_parts(&golden, &Detail::default())[0].forms[0].title;
    assert!(title.ends_with("processes: what it was then"), "{title}");
    assert!(will_it_scale(&golden).iter().all(|file| file.title == "what it was then"));
}

#[test]
fn a_record_of_single_runs_says_that_spread_is_unknown() {
    let mut golden = golden();
    golden.runs.truncate(5);
    golden.record.points.truncate(4);
    golden.runs.retain(|run| run.point < 4);
    let sentences = &record_parts(&golden, &Detail::default())[0].forms[0].sentences;
    assert!(
        sentences.iter().any(|one| one.starts_with("n = 1: no spread is known")),
        "{sentences:?}"
    );
}

#[test]
fn csv_has_a_line_for_each_metric_of_each_run() {
    let mut text = Vec::new();
    csv_header(&mut text).unwrap();
    csv(&golden(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let of_run = |number: &str| {
        let start = format!("\",rate,/mnt/a b,,{number},0,");
        text.lines()
            .filter(|line| line.contains(&start))
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    };
    let head: String = text.lines().take(1).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        record,host,workload,semantics,as,cpus,tasks,placement,parameters,pass,dir,variant,block,run,placebo,left_out,started,metric,value
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,fairness,1
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,idle_percent,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,interrupts.LOC,250
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,interrupts.RES,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,operations,1176000
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,operations_per_s,1176000
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,softirqs.RCU,77
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.idle_ticks,700
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.iowait_ticks,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.irq_ticks,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.nice_ticks,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.softirq_ticks,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.steal_ticks,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.system_ticks,1
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.user_ticks,99
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.ctxt,1000
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,steal_percent,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.elapsed_time,1
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.involuntary_context_switches,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.minor_page_faults,121
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.percent_of_cpu_this_job_got,100
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.system_time,0.75
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.user_time,0.25
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.voluntary_context_switches,0
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,wall_s,1
        20261120-115530-7f3a9c,lab1,posix_lock_shared,1,threads,8,8,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,1,20,0,,2026-11-20T11:55:51Z,failed,1
    "#]]
    .assert_eq(&format!("{head}{}{}", of_run("0,0"), of_run("1,20")));
}

#[test]
fn json_summarises_each_cell() {
    let golden = golden();
    let summary =
        serde_json::to_value(answers::summary(&golden, &["stat.ctxt/op".to_string()])).unwrap();
    let shown = serde_json::json!({
        "record": summary["record"]["id"],
        "state": summary["record"]["state"],
        "curves": summary["curves"].as_array().map(Vec::len),
        "as": summary["curves"][1]["as"],
        "parameters": summary["curves"][1]["parameters"],
        "cpus": summary["curves"][1]["cells"][3]["cpus"],
        "efficiency": summary["curves"][1]["cells"][3]["efficiency"],
        "rate": summary["curves"][1]["cells"][3]["metrics"]["operations_per_s"],
        "switches": summary["curves"][1]["cells"][0]["metrics"]["stat.ctxt/op"]["n"],
        "idle": summary["curves"][1]["cells"][3]["metrics"]["idle_percent"],
        "warnings": summary["warnings"],
    });
    expect![[r#"
        {
          "as": "threads",
          "cpus": 8,
          "curves": 4,
          "efficiency": 0.32194959926150235,
          "idle": null,
          "parameters": {
            "hold_ns": "0",
            "idle_ns": "100",
            "mode": "wait"
          },
          "rate": {
            "max": 2985400.0,
            "mean": 2985400.0,
            "median": 2985400.0,
            "min": 2985400.0,
            "n": 1,
            "stddev": null
          },
          "record": "20261120-115530-7f3a9c",
          "state": "partial",
          "switches": 2,
          "warnings": [
            {
              "advice": "run longer (--seconds)",
              "run": 3,
              "text": "tasks started over 31.0 ms, 3 % of the run"
            },
            {
              "advice": "run longer (--seconds)",
              "run": 9,
              "text": "tasks started over 40.2 ms, 4 % of the run"
            },
            {
              "run": 11,
              "text": "the weather was strange"
            },
            {
              "advice": "knee doctor says how to fix it",
              "run": null,
              "text": "the frequency governor is 'powersave'"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn the_golden_record_comes_back_from_csv_with_every_value() {
    let golden = golden();
    let mut text = Vec::new();
    csv_header(&mut text).unwrap();
    csv(&golden, &mut text).unwrap();
    let input = Input::from_bytes(Path::new("golden.csv"), &text).unwrap();
    let session = golden.record.sessions[0].clone();
    let imported = assemble(&[input], &Telling::default(), session).unwrap();
    assert_eq!(imported.runs.len(), golden.runs.len());
    for (run, (back, _)) in golden.runs.iter().zip(&imported.runs) {
        assert_eq!((run.block, run.started), (back.block, back.started));
        assert_eq!(run.finished(), back.finished());
        let [old, new] = [(&golden.record, run), (&imported.record, back)]
            .map(|(record, run)| &record.points[run.point as usize]);
        assert_eq!((&old.workload, &old.parameters), (&new.workload, &new.parameters));
        assert_eq!((old.form, old.cpus, old.tasks), (new.form, new.cpus, new.tasks));
        let records::Outcome::Finished { metrics, counters, .. } = &run.outcome else { continue };
        for name in metrics.keys().chain(counters.keys()) {
            assert_eq!(run.value(name), back.value(name), "{name}");
        }
    }
}

#[test]
fn the_whole_record_comes_back_from_json() {
    let golden = golden();
    let text = serde_json::to_string(&answers::whole(&golden)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let runs: Vec<records::Run> = serde_json::from_value(value["runs"].clone()).unwrap();
    assert_eq!(runs, *golden.runs);
    assert_eq!(records::Record::read(&value["record"].to_string()).unwrap(), golden.record);
}

#[test]
fn will_it_scale_s_csv_with_missing_values() {
    let mut golden = golden();
    let first = &will_it_scale(&golden)[0];
    assert_eq!(first.name, "posix_lock_shared-idle_ns=100");
    expect![[r#"
        tasks,processes,processes_idle,threads,threads_idle,linear
        0,0,100,0,100,0
        1,1186824,87.50,1159110,87.50,1186824
        2,1498749,76.75,1888078,75.00,2373647
        4,978540,60.75,2692800,50.00,4747294
        8,612632,-1.00,2985400,-1.00,9494588
    "#]]
    .assert_eq(&first.csv);
    // Without the threads' points.
    golden.runs.retain(|run| !(4..8).contains(&run.point));
    expect![[r#"
        tasks,processes,processes_idle,threads,threads_idle,linear
        0,0,100,0,100,0
        1,1186824,87.50,-1,-1.00,1186824
        2,1498749,76.75,-1,-1.00,2373647
        4,978540,60.75,-1,-1.00,4747294
        8,612632,-1.00,-1,-1.00,9494588
    "#]]
    .assert_eq(&will_it_scale(&golden)[0].csv);
}

/// The golden record, its first two points made points of a command.
fn of_command() -> Opened {
    let mut opened = golden();
    let command: records::Command = serde_json::from_value(serde_json::json!({
        "name": "xfs_repair", "run": "xfs_repair -n -o {options} {image}",
        "parameters": {"image": "/big.img"},
        "metric": [{"name": "read_rate", "unit": "MiB/s", "regex": "(.*)"}],
    }))
    .unwrap();
    let record = &mut opened.record;
    record.metrics =
        ::plan::commands::described(&[(String::new(), command.clone())].into()).unwrap();
    record.points.truncate(2);
    for (point, options) in record.points.iter_mut().zip(["ag_stride=-1", "bhash=101073"]) {
        let parameters = [("options", options), ("image", "/big.img")];
        point.parameters = parameters.map(|(k, v)| (k.to_string(), v.to_string())).into();
        point.workload = command.name.clone();
        point.semantics = 0;
        point.until = records::Until::End;
        (point.cpus, point.tasks) = (2, 2);
        point.command = Some(command.run.text());
    }
    record.commands = [(command.name.clone(), command)].into();
    opened.runs.retain(|run| run.point < 2);
    for run in &mut opened.runs {
        if let records::Outcome::Finished { metrics, .. } = &mut run.outcome {
            let of_command = |name: &str| name == "wall_s" || name.starts_with("time.");
            *metrics = metrics.iter().filter(|(name, _)| of_command(name)).collect();
            metrics.insert("read_rate", 100.0 + run.run as f64);
        }
    }
    opened
}

#[test]
fn what_decides_about_a_command_is_its_time_or_what_its_definition_names() {
    let mut record = of_command().record;
    assert_eq!(record.deciding(&record.points[0]), "wall_s");
    let command = record.commands.get_mut("xfs_repair").unwrap();
    command.primary = Some("read_rate".to_string());
    assert_eq!(record.deciding(&record.points[0]), "read_rate");
    assert_eq!(record.deciding_or(&record.points[0], "exit_status"), "exit_status");
    record.points[0].command = None;
    assert_eq!(record.deciding(&record.points[0]), "operations_per_s");
}

#[test]
fn a_command_is_a_table_of_its_parameters() {
    let parts = record_parts(&of_command(), &Detail::default());
    let FormPart { title, table, .. } = &parts[0].forms[0];
    expect![[r#"
        xfs_repair: xfs_repair -n -o {options} {image}
                                               read_rate           user   sys  CPU   vol.   inv.   minor  max RSS
             options  CPUs  n  wall_s  stddev      MiB/s  stddev      s     s    %  ctxsw  ctxsw  faults      MiB
        ag_stride=-1     2  2   1.000       0        113      18   0.25  0.75  100      0    0.5     121        -
        bhash=101073     2  2   1.000       0        118       6  0.464  1.39  186  26.8k    1.5     122        -
    "#]].assert_eq(&format!("{title}\n{}", table.text()));
}
