//! Machines as /sys shows them, each generated from a few numbers.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::topology::points::default_points;
use crate::topology::*;
use crate::{Cpu, Placement, Topology};

/// A machine of nested, equal groups. CPUs are numbered as Linux does on x86: the first threads
/// of all cores, then the second ones.
#[derive(Clone, Copy)]
struct Machine {
    packages: u32,
    nodes_per_package: u32,
    llcs_per_node: u32,
    cores_per_llc: u32,
    threads_per_core: u32,
    /// Whether /sys hides caches, nodes and packages, as in some virtual machines.
    hidden: bool,
    offline: &'static [u32],
}

const LAPTOP: Machine = Machine {
    packages: 1,
    nodes_per_package: 1,
    llcs_per_node: 1,
    cores_per_llc: 4,
    threads_per_core: 2,
    hidden: false,
    offline: &[],
};

const TWO_PACKAGES_OF_TWO_CACHES: Machine = Machine { packages: 2, llcs_per_node: 2, ..LAPTOP };

const EIGHT_PACKAGES: Machine = Machine { packages: 8, cores_per_llc: 10, ..LAPTOP };

const VIRTUAL: Machine = Machine { cores_per_llc: 2, threads_per_core: 1, hidden: true, ..LAPTOP };

impl Machine {
    fn cores(&self) -> u32 {
        self.packages * self.nodes_per_package * self.llcs_per_node * self.cores_per_llc
    }

    /// The online CPUs of which `group` of the core is `number`, as a list.
    fn list(&self, group: u32, number: u32) -> String {
        let all = 0..self.cores() * self.threads_per_core;
        let is_in = |cpu: &u32| cpu % self.cores() / group == number;
        let cpus = all.filter(is_in).filter(|cpu| !self.offline.contains(cpu));
        cpus.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
    }

    fn write(&self, sys: &Path) {
        let file = |path: String, text: String| {
            let path = sys.join("devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        };
        let per_node = self.llcs_per_node * self.cores_per_llc;
        let per_package = self.nodes_per_package * per_node;
        file("cpu/online".into(), self.list(self.cores(), 0));
        for cpu in 0..self.cores() * self.threads_per_core {
            if self.offline.contains(&cpu) {
                continue;
            }
            let core = cpu % self.cores();
            let package = core / per_package;
            file(format!("cpu/cpu{cpu}/topology/core_cpus_list"), self.list(1, core));
            file(format!("cpu/cpu{cpu}/topology/physical_package_id"), package.to_string());
            if self.hidden {
                continue;
            }
            let shared = self.list(self.cores_per_llc, core / self.cores_per_llc);
            let caches = [("1", "Data", self.list(1, core)), ("3", "Unified", shared)];
            for (index, (level, kind, cpus)) in caches.into_iter().enumerate() {
                let cache = format!("cpu/cpu{cpu}/cache/index{index}");
                file(format!("{cache}/level"), level.into());
                file(format!("{cache}/type"), kind.into());
                file(format!("{cache}/shared_cpu_list"), cpus);
            }
        }
        if !self.hidden {
            for node in 0..self.cores() / per_node {
                file(format!("node/node{node}/cpulist"), self.list(per_node, node));
            }
        }
    }

    fn topology(&self) -> Topology {
        let sys = tempfile::tempdir().unwrap();
        self.write(sys.path());
        read(sys.path()).unwrap()
    }
}

fn check_read(machine: Machine, expected: Expect) {
    let line = |c: &Cpu| {
        format!("{} core {} llc {} node {} package {}\n", c.cpu, c.core, c.llc, c.node, c.package)
    };
    expected.assert_eq(&machine.topology().cpus.iter().map(line).collect::<String>());
}

#[test]
fn groups_are_numbered_by_their_lowest_cpu() {
    check_read(
        Machine { cores_per_llc: 2, ..TWO_PACKAGES_OF_TWO_CACHES },
        expect![[r#"
        0 core 0 llc 0 node 0 package 0
        1 core 1 llc 0 node 0 package 0
        2 core 2 llc 2 node 0 package 0
        3 core 3 llc 2 node 0 package 0
        4 core 4 llc 4 node 1 package 1
        5 core 5 llc 4 node 1 package 1
        6 core 6 llc 6 node 1 package 1
        7 core 7 llc 6 node 1 package 1
        8 core 0 llc 0 node 0 package 0
        9 core 1 llc 0 node 0 package 0
        10 core 2 llc 2 node 0 package 0
        11 core 3 llc 2 node 0 package 0
        12 core 4 llc 4 node 1 package 1
        13 core 5 llc 4 node 1 package 1
        14 core 6 llc 6 node 1 package 1
        15 core 7 llc 6 node 1 package 1
    "#]],
    );
}

#[test]
fn offline_cpus_are_left_out() {
    check_read(
        Machine { offline: &[0, 5], ..LAPTOP },
        expect![[r#"
        1 core 1 llc 1 node 0 package 0
        2 core 2 llc 1 node 0 package 0
        3 core 3 llc 1 node 0 package 0
        4 core 4 llc 1 node 0 package 0
        6 core 2 llc 1 node 0 package 0
        7 core 3 llc 1 node 0 package 0
    "#]],
    );
}

#[test]
fn a_virtual_machine_without_nodes_and_caches_is_one_of_each() {
    check_read(
        VIRTUAL,
        expect![[r#"
        0 core 0 llc 0 node 0 package 0
        1 core 1 llc 0 node 0 package 0
    "#]],
    );
}

#[test]
fn this_host_can_be_read() {
    let topology = read(Path::new("/sys")).unwrap().restricted_to(&crate::affinity::get().unwrap());
    assert!(!topology.cpus.is_empty());
    assert_eq!(topology.order(Placement::Compact).len(), topology.cpus.len());
}

/// The order and, after it, the default points, for each placement.
fn check_order(topology: &Topology, expected: Expect) {
    let mut text = String::new();
    for &placement in Placement::ALL {
        let order = as_ranges(&topology.order(placement));
        let points = default_points(topology, placement);
        let points: Vec<_> = points.iter().map(u32::to_string).collect();
        text += &format!("{placement}: {order}\n  at {}\n", points.join(" "));
    }
    expected.assert_eq(&text);
}

/// Ascending neighbours as `first-last`: orders of 160 CPUs stay readable.
fn as_ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[u32]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!("no run is empty"),
    };
    runs.map(run).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_laptop_in_order() {
    check_order(
        &LAPTOP.topology(),
        expect![[r#"
        compact: 0 4 1 5 2 6 3 7
          at 1 2 4 8
        cores: 0-7
          at 1 2 4 8
        scatter: 0-7
          at 1 2 4 8
        one-per-llc: 0
          at 1
        one-per-node: 0
          at 1
    "#]],
    );
}

#[test]
fn two_packages_of_two_caches_in_order() {
    check_order(
        &TWO_PACKAGES_OF_TWO_CACHES.topology(),
        expect![[r#"
        compact: 0 16 1 17 2 18 3 19 4 20 5 21 6 22 7 23 8 24 9 25 10 26 11 27 12 28 13 29 14 30 15 31
          at 1 2 4 8 16 32
        cores: 0-31
          at 1 2 4 8 16 32
        scatter: 0 8 4 12 1 9 5 13 2 10 6 14 3 11 7 15-16 24 20 28 17 25 21 29 18 26 22 30 19 27 23 31
          at 1 2 4 8 16 32
        one-per-llc: 0 4 8 12
          at 1 2 4
        one-per-node: 0 8
          at 1 2
    "#]],
    );
}

#[test]
fn eight_packages_in_order() {
    check_order(
        &EIGHT_PACKAGES.topology(),
        expect![[r#"
        compact: 0 80 1 81 2 82 3 83 4 84 5 85 6 86 7 87 8 88 9 89 10 90 11 91 12 92 13 93 14 94 15 95 16 96 17 97 18 98 19 99 20 100 21 101 22 102 23 103 24 104 25 105 26 106 27 107 28 108 29 109 30 110 31 111 32 112 33 113 34 114 35 115 36 116 37 117 38 118 39 119 40 120 41 121 42 122 43 123 44 124 45 125 46 126 47 127 48 128 49 129 50 130 51 131 52 132 53 133 54 134 55 135 56 136 57 137 58 138 59 139 60 140 61 141 62 142 63 143 64 144 65 145 66 146 67 147 68 148 69 149 70 150 71 151 72 152 73 153 74 154 75 155 76 156 77 157 78 158 79 159
          at 1 2 4 8 16 20 32 40 60 64 80 100 120 128 140 160
        cores: 0-159
          at 1 2 4 8 10 16 20 30 32 40 50 60 64 70 80 128 160
        scatter: 0 10 20 30 40 50 60 70 1 11 21 31 41 51 61 71 2 12 22 32 42 52 62 72 3 13 23 33 43 53 63 73 4 14 24 34 44 54 64 74 5 15 25 35 45 55 65 75 6 16 26 36 46 56 66 76 7 17 27 37 47 57 67 77 8 18 28 38 48 58 68 78 9 19 29 39 49 59 69 79-80 90 100 110 120 130 140 150 81 91 101 111 121 131 141 151 82 92 102 112 122 132 142 152 83 93 103 113 123 133 143 153 84 94 104 114 124 134 144 154 85 95 105 115 125 135 145 155 86 96 106 116 126 136 146 156 87 97 107 117 127 137 147 157 88 98 108 118 128 138 148 158 89 99 109 119 129 139 149 159
          at 1 2 4 8 16 32 64 80 128 160
        one-per-llc: 0 10 20 30 40 50 60 70
          at 1 2 4 8
        one-per-node: 0 10 20 30 40 50 60 70
          at 1 2 4 8
    "#]],
    );
}

#[test]
fn a_virtual_machine_in_order() {
    check_order(
        &VIRTUAL.topology(),
        expect![[r#"
        compact: 0-1
          at 1 2
        cores: 0-1
          at 1 2
        scatter: 0-1
          at 1 2
        one-per-llc: 0
          at 1
        one-per-node: 0
          at 1
    "#]],
    );
}

#[test]
fn a_subset_with_holes_in_order() {
    let machine = Machine { offline: &[2, 17], ..TWO_PACKAGES_OF_TWO_CACHES };
    let allowed = crate::parse_cpu_list("1-3,9-12,17-19,24-26,99").unwrap();
    check_order(
        &machine.topology().restricted_to(&allowed),
        expect![[r#"
        compact: 1 3 19 18 24 9 25 10 26 11-12
          at 1 2 3 4 8 11
        cores: 1 3 18 24 9-12 19 25-26
          at 1 2 3 4 8 11
        scatter: 1 24 3 12 18 9-11 19 25-26
          at 1 2 4 8 11
        one-per-llc: 1 24 12
          at 1 2 3
        one-per-node: 1 24
          at 1 2
    "#]],
    );
}

#[test]
fn a_virtual_machine_with_a_package_for_every_cpu_is_not_measured_at_each() {
    let machine = Machine { packages: 48, cores_per_llc: 1, threads_per_core: 1, ..VIRTUAL };
    check_order(
        &machine.topology(),
        expect![[r#"
        compact: 0-47
          at 1 2 4 8 16 32 48
        cores: 0-47
          at 1 2 4 8 16 32 48
        scatter: 0-47
          at 1 2 4 8 16 32 48
        one-per-llc: 0-47
          at 1 2 4 8 16 32 48
        one-per-node: 0
          at 1
    "#]],
    );
}

fn check_points(machine: Machine, placement: Placement, spec: &str, expected: Expect) {
    let text = match points(spec, &machine.topology(), placement) {
        Ok(points) => format!("{points:?}"),
        Err(error) => format!("{error:#}"),
    };
    expected.assert_eq(&text);
}

#[test]
fn points_can_be_asked_for_in_words_numbers_and_ranges() {
    let check = |spec, expected| check_points(LAPTOP, Placement::Cores, spec, expected);
    check("all", expect!["[8]"]);
    check("cores", expect!["[4]"]);
    check("7", expect!["[7]"]);
    check("1..all", expect!["[1, 2, 4, 8]"]);
    check("3..cores", expect!["[3, 4]"]);
    check("3..7", expect!["[3, 4, 7]"]);
    check("5..5", expect!["[5]"]);
    check("1..7:2", expect!["[1, 3, 5, 7]"]);
    check("1..8*3", expect!["[1, 3, 8]"]);
    check("3-6", expect!["[3, 4, 5, 6]"]);
    check("7-all", expect!["[7, 8]"]);
    check(" 8, 1-3,2..4 ", expect!["[1, 2, 3, 4, 8]"]);
}

#[test]
fn fine_points_are_each_count_and_then_steps_with_the_edges_between() {
    let fine = fine_points(&EIGHT_PACKAGES.topology(), Placement::Cores);
    assert_eq!(fine[..64], (1..=64).collect::<Vec<u32>>());
    assert_eq!(fine[64..68], [66, 68, 70, 71]);
    assert_eq!(fine.last(), Some(&160));
    assert!(
        default_points(&EIGHT_PACKAGES.topology(), Placement::Cores)
            .iter()
            .all(|n| fine.contains(n))
    );
    assert_eq!(fine_points(&VIRTUAL.topology(), Placement::Cores), [1, 2]);
}

#[test]
fn points_that_cannot_be_are_explained() {
    let check = |spec, expected| check_points(VIRTUAL, Placement::Cores, spec, expected);
    check("8", expect!["this host allows 2 CPUs; 8 were asked for: use 1..all"]);
    check("1..8", expect!["this host allows 2 CPUs; 8 were asked for: use 1..all"]);
    check("0", expect!["'0' asks for 0 CPUs: use 1..all"]);
    check("0-2", expect!["'0-2' asks for 0 CPUs: use 1..all"]);
    check("all..1", expect!["'all..1' runs backwards, from 2 to 1 CPUs: put the lower end first"]);
    check(
        "",
        expect![
            "'' is not a number of CPUs: use a number, cores, all, 1..all (doubling, plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
        ],
    );
    check(
        "1,,2",
        expect![
            "'' is not a number of CPUs: use a number, cores, all, 1..all (doubling, plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
        ],
    );
    check(
        "many",
        expect![
            "'many' is not a number of CPUs: use a number, cores, all, 1..all (doubling, plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
        ],
    );
    check(
        "1..=2",
        expect![
            "'1..=2' is not a number of CPUs: use a number, cores, all, 1..all (doubling, plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
        ],
    );
    check(
        "-2",
        expect![
            "'-2' is not a number of CPUs: use a number, cores, all, 1..all (doubling, plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
        ],
    );
    check_points(
        VIRTUAL,
        Placement::OnePerNode,
        "2",
        expect!["placement one-per-node uses 1 CPU of this host; 2 were asked for: use 1..all"],
    );
    let none = Topology::default();
    let error = points("all", &none, Placement::Cores).unwrap_err();
    assert_eq!(error.to_string(), "this host allows no CPU to run on");
}

#[test]
fn a_placement_has_one_name_on_the_command_line_and_in_records() {
    for &placement in Placement::ALL {
        let name = placement.to_string();
        assert_eq!(name.parse::<Placement>().unwrap(), placement);
        assert_eq!(serde_json::to_string(&placement).unwrap(), format!("\"{name}\""));
    }
    let error = "dense".parse::<Placement>().unwrap_err().to_string();
    assert!(error.contains("one of compact, cores, scatter"), "{error}");
}

#[test]
fn restricting_keeps_the_groups() {
    let cpu = |cpu, core| Cpu { cpu, core, llc: 0, node: 0, package: 0 };
    let all = Topology { cpus: vec![cpu(0, 0), cpu(1, 1), cpu(2, 0)] };
    assert_eq!(all.restricted_to(&[2, 9]).cpus, [cpu(2, 0)]);
}
