//! Scans of a parameter: the points of one curve are one variant.

use std::path::Path;

use store::import::{Imported, Input, Telling, assemble};

use super::{fixture_text, session};

fn imported(files: &[(String, String)]) -> Imported {
    let input = |(name, text): &(String, String)| {
        Input::from_bytes(Path::new(name), text.as_bytes()).unwrap()
    };
    let inputs: Vec<Input> = files.iter().map(input).collect();
    assemble(&inputs, &Telling::default(), session()).unwrap()
}

/// Each point's variant, tasks and parameters.
fn points(imported: &Imported) -> Vec<String> {
    let points = imported.record.points.iter();
    points.map(|p| format!("{} {} {:?}", p.variant, p.tasks, p.parameters)).collect()
}

#[test]
fn logs_with_other_numbers_of_threads_are_one_variant() {
    let log = |threads: u32| {
        let whole = fixture_text("sysbench.log");
        // The first of two outputs.
        let end = whole.match_indices("sysbench 1").nth(1).map_or(whole.len(), |(at, _)| at);
        let text =
            whole[..end].replace("Number of threads: 2", &format!("Number of threads: {threads}"));
        (format!("cpu-{threads}.log"), text)
    };
    let found = points(&imported(&[1, 2, 4, 16].map(log)));
    assert_eq!(
        found,
        [1, 2, 4, 16].map(|n| format!("cpu {n} {{\"version\": \"1.0.20\"}}")),
        "{found:?}"
    );
    // Two files are compared.
    assert_ne!(imported(&[1, 2].map(log)).record.variants.len(), 1);
}

#[test]
fn a_parameter_scan_of_hyperfine_is_one_variant() {
    let result = |n: u32| {
        format!(
            r#"{{"command": "prog {n}", "times": [{}, {}], "exit_codes": [0, 0], "parameters": {{"n": "{n}"}}}}"#,
            1.0 / f64::from(n),
            1.1 / f64::from(n)
        )
    };
    let text = format!(r#"{{"results": [{}]}}"#, [1, 2, 4, 8].map(result).join(","));
    let found = points(&imported(&[("scan.json".to_string(), text)]));
    assert_eq!(found, [1, 2, 4, 8].map(|n| format!("scan 0 {{\"n\": \"{n}\"}}")));
}

#[test]
fn numbers_are_read_as_people_write_them() {
    let text = "variant\tmetric\tvalue\tthreads\nx\tops\t\"1,650\"\t1\nx\tops\t1.5 Mops\t2\n";
    let found = imported(&[("x.tsv".to_string(), text.to_string())]);
    let values: Vec<_> = found.runs.iter().map(|(run, _)| run.value("ops").unwrap()).collect();
    assert_eq!(values, [1650.0, 1.5e6]);
}

#[test]
fn a_table_over_threads_is_a_curve() {
    let text = "threads,tps,p99 latency,errors\n1,650,1.5,0\n2,\"1,241\",1.6,\n16,18051,4.0,2\n";
    let found = imported(&[("pool.csv".to_string(), text.to_string())]);
    assert_eq!(found.format.name, "scan");
    assert_eq!(
        points(&found),
        ["1", "2", "16"].map(|n| format!("pool 0 {{\"threads\": \"{n}\"}}"))
    );
    let values = |metric: &str| -> Vec<Option<f64>> {
        found.runs.iter().map(|(run, _)| run.value(metric)).collect()
    };
    assert_eq!(values("operations_per_s"), [Some(650.0), Some(1241.0), Some(18051.0)]);
    assert_eq!(values("p99_latency"), [Some(1.5), Some(1.6), Some(4.0)]);
    assert_eq!(values("errors"), [Some(0.0), None, Some(2.0)]);

    let cpus =
        imported(&[("x.tsv".to_string(), "# node 0\ncores\tMops/s\n1\t2\n8\t9.5\n".to_string())]);
    let points: Vec<_> = cpus.record.points.iter().map(|point| (point.cpus, point.tasks)).collect();
    assert_eq!(points, [(1, 1), (8, 8)]);
    assert_eq!(cpus.runs[1].0.value("operations_per_s"), Some(9.5e6));
}

#[test]
fn the_scanned_column_may_stand_anywhere_and_words_make_cells() {
    let text = "when,lock,size, threads, time sec, misses, run\n\
                11:40:33,mutex,16, 1, 0.03, 176890.5, 0\n\
                11:40:34,mutex,16, 4, 0.01, NA, 1\n\
                11:40:35,ticket,16, 1, 0.04, 85260, 0\n";
    let found = imported(&[("set.csv".to_string(), text.to_string())]);
    assert_eq!(found.format.name, "scan");
    let parameters = [("mutex", 1), ("mutex", 4), ("ticket", 1)].map(|(lock, threads)| {
        format!("set 0 {{\"lock\": \"{lock}\", \"size\": \"16\", \"threads\": \"{threads}\"}}")
    });
    assert_eq!(points(&found), parameters);
    let values = |metric: &str| -> Vec<Option<f64>> {
        found.runs.iter().map(|(run, _)| run.value(metric)).collect()
    };
    assert_eq!(values("time.elapsed_time"), [0.03, 0.01, 0.04].map(Some));
    assert_eq!(values("misses"), [Some(176890.5), None, Some(85260.0)]);
    assert_eq!(found.record.experiment.compare.metric, "time.elapsed_time");
    let warning = &found.record.warnings[0].text;
    assert!(warning.contains("column run (3 numbers), column when (9 numbers)"), "{warning}");
}

#[test]
fn a_table_between_blanks_with_its_header_in_a_comment_is_a_curve() {
    let text = "# made by run.sh\n# cores  mutex  mcs\n1  5.5  4.5\n2  3.5  4.25\n4  1.5  4.0\n8  0.5  4.0\n";
    let found = imported(&[("locks.dat".to_string(), text.to_string())]);
    let cpus: Vec<_> = found.record.points.iter().map(|point| point.cpus).collect();
    assert_eq!(cpus, [1, 2, 4, 8]);
    assert_eq!(found.runs[1].0.value("mcs"), Some(4.25));
}

#[test]
fn outputs_with_other_numbers_of_connections_are_one_curve_over_them() {
    let output = |connections: u32| {
        let text = format!(
            "Running 5s test @ http://127.0.0.1/\n  2 threads and {connections} connections\n  \
             Thread Stats   Avg      Stdev     Max   +/- Stdev\nRequests/sec:   {connections}05.69\n"
        );
        (format!("web-{connections}.txt"), text)
    };
    let found = points(&imported(&[2, 4, 8, 16].map(output)));
    let expected =
        [2, 4, 8, 16].map(|n| format!("web 0 {{\"connections\": \"{n}\", \"threads\": \"2\"}}"));
    assert_eq!(found, expected);
}
