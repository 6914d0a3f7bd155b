//! Valid inputs, one of each kind and variant; the fuzzer starts from these.

use std::fs;
use std::path::Path;

use records::{Record, Run, Sample};
use store::{Id, Store};

pub const JOBS: &[&str] = &[
    r#"{"protocol":2,"work":{"workload":{"name":"getppid","semantics":1,"parameters":{"idle_ns":"0"}}},"as":"processes","tasks":2,"cpus":[0,1],"until":{"seconds":0.25},"pass":"rate","scratch":"/tmp/.knee-1/0","stop_grace_s":10.0}"#,
    r#"{"protocol":2,"work":{"workload":{"name":"posix_lock_shared","semantics":2}},"as":"threads","tasks":4096,"cpus":[7],"until":{"operations_per_task":1000},"pass":"latency","scratch":"/a b/ü","stop_grace_s":0.1}"#,
    r#"{"protocol":2,"work":{"command":{"run":["sort","-S","1M","/a b"],"prepare":[["cp","a","b"]],"cleanup":[["rm","b"]],"directory":"/tmp/.knee-1/0","environment":{"LC_ALL":"C"},"success":[0,1],"timeout_s":600.0,"metrics":[{"name":"files_per_s","unit":"1/s","better":"higher","from":"stderr","regex":"rate (.*)"},{"name":"iops","from":"file:out.json","json":"/jobs/0/write/iops"},{"name":"rate","unit":"1/s","better":"lower","from":"stdout","column":{"heading":"Files/sec","row":"mean"}},{"name":"third","column":{"heading":"x","row":3}}]}},"as":"processes","tasks":2,"cpus":[0,1],"until":"end","pass":"rate","scratch":"/tmp/.knee-1/0","stop_grace_s":10.0}"#,
];

pub const EVENTS: &[&str] = &[
    r#"{"event":"hello","protocol":2,"knee":"0.1.0","pid":77}"#,
    r#"{"event":"ready","tasks":2,"startup_s":0.004}"#,
    r#"{"event":"interval","at_ns":20000000,"operations":1234567}"#,
    r#"{"event":"measured","wall_ns":1000000000,"drain_ns":1234,"usage":{"user_us":1,"system_us":2,"voluntary_switches":3,"involuntary_switches":4,"minor_faults":5,"major_faults":6,"max_rss_kib":7,"block_inputs":8,"block_outputs":9},"deltas":{"stat.ctxt":17},"gauges":{"frequency_mhz":2999.5},"unavailable":{"throttle":"no such file"}}"#,
    r#"{"event":"task","task":1,"cpu":3,"operations":99,"start_ns":10,"stop_ns":1000,"usage":{"user_us":1,"system_us":2,"voluntary_switches":3,"involuntary_switches":4,"minor_faults":5,"major_faults":6,"max_rss_kib":7,"block_inputs":8,"block_outputs":9},"effects":{"faults":3.0},"failure":"no","durations":[[128,7],[255,1]]}"#,
    r#"{"event":"latency","count":10,"mean_ns":12.5,"stddev_ns":0.25,"p50_ns":12,"p99_ns":15,"p999_ns":16,"max_ns":17,"timing_cost_ns":20.0,"buckets":[[12,5],[17,5]]}"#,
    r#"{"event":"warning","text":"as threads: slow","advice":"use processes"}"#,
    r#"{"event":"ended","exit_status":1,"values":{"files_per_s":1234.5}}"#,
    r#"{"event":"finished"}"#,
    r#"{"event":"failed","reason":"task 0: writing: No space left on device"}"#,
    r#"{"event":"of_the_future","what":[1,2]}"#,
];

pub const RUNS: &[&str] = &[
    r#"{"run":0,"point":1,"block":0,"started":"2026-11-20T12:44:34.298479818Z","state":"finished","metrics":{"operations":196.0,"operations_per_s":9734.537667818338,"time.user_time":0.0},"counters":{"stat.ctxt":17,"vmstat.nr_free_pages":-119},"unavailable":{"throttle":"no such file"},"warmup":{"found":"until","seconds":0.25,"steady_operations_per_s":9000.5},"warnings":[{"text":"the cgroup throttled 3 times","advice":"use fewer CPUs"}]}"#,
    r#"{"run":1,"point":0,"block":0,"started":"2026-11-20T12:44:35Z","state":"finished","metrics":{},"counters":{},"warmup":{"found":"never"}}"#,
    r#"{"run":2,"point":1,"block":1,"started":"2026-11-20T12:44:36Z","state":"failed","reason":"the worker was killed by SIGKILL before the run was over"}"#,
];

pub const RECORDS: &[&str] = &[
    r#"{"format":1,"id":"20261120-115530-7f3a9c","state":"partial","experiment":{"name":"a","description":"b","blocks":2,"seed":7,"latency":true,"stop_grace_s":10.0,"timeout_s":600.0,"axes":{"cpus":["1..all"],"as":["processes","threads"],"seconds":[1.0]},"load":[{"workload":"getppid","parameters":{"idle_ns":["0","100"]},"axes":{"tasks":[1,2]}}]},"seed":42,"points":[{"workload":"getppid","semantics":1,"parameters":{"idle_ns":"0"},"as":"processes","cpus":1,"placement":"cores","cpu_list":[0],"tasks":1,"until":{"seconds":1.0},"pass":"rate","dir":"/tmp"},{"workload":"getppid","semantics":1,"parameters":{"idle_ns":"0"},"as":"threads","cpus":2,"placement":"one-per-llc","cpu_list":[0,1],"tasks":2,"until":{"operations_per_task":9},"pass":"latency","dir":"/tmp"}],"sessions":[{"command":["knee","run"],"knee":"0.1.0","started":"2026-11-20T11:55:30Z","finished":"2026-11-20T11:56:30Z","boot_id":"b7","first_run":0}],"host":{"hostname":"lab1","kernel_release":"6.12.8","memory_bytes":34359738368,"knobs":{"cpufreq.governor":"powersave"}},"topology":{"cpus":[{"cpu":0,"core":0,"llc":0,"node":0,"package":0},{"cpu":1,"core":1,"llc":0,"node":0,"package":0}]},"directories":[{"path":"/tmp","file_system":"ext4","bytes_free":1000}],"warnings":[{"text":"a","advice":"b"}],"runs_finished":2,"runs_failed":1,"files":{}}"#,
    r#"{"format":1,"id":"20261120-115530-7f3a9c","state":"whole","experiment":{"load":[{"workload":"brk"}]},"seed":0,"points":[],"sessions":[],"host":{},"topology":{"cpus":[]},"directories":[]}"#,
];

pub const EXPERIMENTS: &[&str] = &[
    include_str!("../../../../experiments/create-files-on.toml"),
    include_str!("../../../../experiments/file-locks.toml"),
    include_str!("../../../../experiments/first-look.toml"),
    include_str!("../../../../experiments/page-faults.toml"),
    include_str!("../../../../experiments/shootdowns.toml"),
    "blocks = 3\nseed = 7\nlatency = true\nstop_grace_s = 1.5\ntimeout_s = 60\n[axes]\ncpus = [1, '1-2', 'all']\nas = ['processes', 'threads']\nplacement = ['compact', 'scatter']\ndir = '/tmp'\nseconds = [0.5, 1]\n[[load]]\nworkload = 'create_files'\nparameters = { size_bytes = [0, '4k', '1M'], sync = 'fsync', idle_ns = [0, 100] }\naxes = { tasks = [1, 2, 64] }\n[[load]]\nworkload = 'posix01'\naxes = { tasks_per_cpu = [1, 4], operations_per_task = 100 }\n",
    COMMANDS,
    include_str!("../../../../commands/fs_mark.toml"),
    include_str!("../../../../commands/fio.toml"),
];

/// A command with all that one may say.
const COMMANDS: &str = r#"
[[load]]
parameters = { options = ['ag_stride=-1', 'bhash=101073'] }
[load.command]
name = 'xfs_repair'
description = 'a check'
run = 'xfs_repair -n -o {options} {scratch}/image'
shell = false
prepare = ['cp master.img {scratch}/image', ['sync']]
cleanup = ['rm {scratch}/image']
directory = '{scratch}'
environment = { A = '1', B = 2 }
success = [0, 1]
timeout_s = 60
version = 'xfs_repair -V'
primary = 'phase_s'
parameters = { options = 'none' }
[[load.command.metric]]
name = 'phase_s'
unit = 's'
better = 'lower'
from = 'stderr'
regex = '(\d+) seconds'
[[load.command.metric]]
name = 'iops'
from = 'file:out.json'
json = '/jobs/0/write/iops'
[[load.command.metric]]
name = 'rate'
column = { heading = 'Files/sec', row = 2 }
"#;

/// Results of other tools, one of each format and more.
pub fn results() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let entries = fs::read_dir(folder).expect("listing the results").flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending != "rs"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("reading a result")).collect()
}

/// The files of a record's folder, by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// A finished record, the same without its seals, and one that grows.
pub fn folders() -> [Files; 3] {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::at(home.path().to_path_buf());
    let plan = Record::read(RECORDS[0]).expect("the example is valid");
    let mut growing = store.begin(plan, id()).expect("beginning a record");
    for line in RUNS {
        let run = Run::read(line).expect("the example is valid");
        let sample =
            |metric: &str, task, at_ns| Sample { metric: metric.into(), task, at_ns, value: 0.5 };
        let task = sample("task.operations", Some(run.run), None);
        let interval = sample("interval.operations", None, Some(20_000_000));
        growing.append(&run, vec![task, interval]).expect("adding a run");
    }
    let hidden = files(&home.path().join("7f").join(format!(".part-{}", id().as_str())));
    let folder =
        growing.finish("2026-11-20T12:00:00Z".parse().expect("a time")).expect("finishing");
    let folder = folder.expect("runs were added");
    let sealed = files(&folder);
    let mut unsealed = sealed.clone();
    let mut record = store::open(&folder).expect("it is whole").record;
    record.files.clear();
    unsealed[0] = ("record.json".to_string(), serde_json::to_vec(&record).expect("plain data"));
    [sealed, unsealed, hidden]
}

pub fn id() -> Id {
    Id::read("20261120-115530-7f3a9c").expect("an id")
}

fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).expect("listing a record").flatten();
    let read = |path: &Path| fs::read(path).expect("reading a file of a record");
    let mut files: Files = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(&entry.path())))
        .collect();
    files.sort();
    files
}
