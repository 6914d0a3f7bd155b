//! Rows add up whatever looks saw: recorded looks, and random windows.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{CpuMode, CpuTime, Outcome, SampledStacks, Slice, Stack, Unavailable, Values};

use super::*;

/// A window of random slices, locks, shares and samples that keeps all laws.
fn window(random: &mut Xoshiro256PlusPlus) -> Window {
    let mut cpu = |cpu| {
        let mut slices = Vec::new();
        for base in Base::ALL {
            for state in CpuState::ALL {
                if random.random_range(0..3) == 0 {
                    let ns = random.random_range(0..1 << 30);
                    slices.push(Slice { base, state, ns, entries: random.random_range(0..100) });
                }
            }
        }
        let length_ns = slices.iter().map(|slice| slice.ns).sum();
        CpuTime { cpu, length_ns, slices }
    };
    let cpus = vec![cpu(0), cpu(1)];
    let mut window = Window {
        operations: 0,
        obtained: Obtained::Exact,
        cpus,
        locks: Vec::new(),
        idle: Vec::new(),
        others: Vec::new(),
        waits: Vec::new(),
        samples: None,
        counts: BTreeMap::new(),
        bursts: None,
        senders: BTreeMap::new(),
        anomalies: BTreeMap::new(),
        task_clock_ns: None,
        woken_ns: 0,
        active_ns: 0,
        gaps: Vec::new(),
        sleeps: Vec::new(),
    };
    window.operations = random.random_range(1..1_000_000);
    let mut parts = |whole: u64| {
        let weights: Vec<u64> = (0..4).map(|_| random.random_range(0..5)).collect();
        split(whole, &weights)
    };
    for base in Base::ALL {
        let spun = parts(window.time_ns(is_slice(base, CpuState::Spin)));
        window.locks.extend(spun.into_iter().enumerate().map(|(index, spin_ns)| LockTime {
            members: if index == 0 { vec!["a.lock".to_string()] } else { Vec::new() },
            spins: 1,
            spin_ns,
            ..LockTime::new(base, ["a+1", "b+2", "0xffff", "0xfffe"][index].to_string())
        }));
    }
    let mut shares = |whole: u64| -> Vec<Share> {
        let parts = parts(whole).into_iter().enumerate();
        parts.map(|(index, ns)| Share { name: format!("s{index}"), ns, times: 1 }).collect()
    };
    window.idle = shares(window.time_ns(is_slice(Base::Idle, CpuState::Rest)));
    window.others = shares(window.time_ns(is_slice(Base::Other, CpuState::Rest)));
    window.samples = (random.random_range(0..4) > 0).then(|| samples(random));
    assert_eq!(window.broken_law(), None);
    window
}

fn samples(random: &mut Xoshiro256PlusPlus) -> SampledStacks {
    let functions = ["f", "g", "__x64_sys_read", "exc_page_fault", "do_syscall_64"];
    let stack = |random: &mut Xoshiro256PlusPlus| Stack {
        base: Base::ALL[random.random_range(0..4)],
        state: CpuState::Rest,
        mode: [CpuMode::Kernel, CpuMode::User, CpuMode::AfterSystemCall][random.random_range(0..3)],
        // One index is beyond the table: a damaged sample must not stop the rest.
        frames: (0..3).map(|_| random.random_range(0..=functions.len() as u32)).collect(),
        kernel_frames: 3,
        offset: random.random_range(0..3),
        call: (random.random_range(0..2) > 0).then(|| random.random_range(0..7)),
        count: random.random_range(1..20),
    };
    let count = random.random_range(0..10);
    SampledStacks {
        hertz: 199,
        lost: 0,
        functions: functions.map(str::to_string).to_vec(),
        objects: Vec::new(),
        stacks: (0..count).map(|_| stack(random)).collect(),
    }
}

fn look(number: u32, windows: Vec<Window>) -> Profile {
    Profile {
        number,
        kind: ProfileKind::Time,
        point: 0,
        block: number,
        started: jiff::Timestamp::UNIX_EPOCH,
        outcome: Outcome::Finished {
            metrics: Values::new(),
            counters: Values::new(),
            unavailable: Unavailable::default(),
            warmup: None,
        },
        windows,
        unavailable_probes: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn rows_of_any_windows_add_up_to_the_budget_in_every_unit() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for _ in 0..500 {
        let looks: Vec<Profile> = (0..random.random_range(1..5))
            .map(|number| {
                let windows = (0..random.random_range(1..4)).map(|_| window(&mut random));
                look(number, windows.collect())
            })
            .collect();
        let looks: Vec<&Profile> = looks.iter().collect();
        let ledger = ledger(&looks, &looks).unwrap();
        assert_eq!(ledger.broken(), None);
        let units = if looks.len() > 1 { looks.len() } else { looks[0].windows.len() };
        assert_eq!(ledger.units.len(), units);
    }
}

#[test]
fn recorded_looks_keep_their_laws_and_make_a_ledger() {
    let looks = include_str!("recorded.ndjson").lines().map(|line| Profile::read(line).unwrap());
    let looks: Vec<Profile> = looks.collect();
    let borrowed: Vec<&Profile> = looks.iter().collect();
    for window in looks.iter().flat_map(|look| &look.windows) {
        assert_eq!(window.broken_law(), None);
    }
    let ledger = ledger(&borrowed, &borrowed).unwrap();
    assert_eq!(ledger.broken(), None);
    let call = ledger.find(&[WORK, "system call fcntl"]).unwrap();
    let calls = call.events.as_ref().unwrap().per_operation().mean;
    assert!((calls - 2.0).abs() < 0.01, "a lock and an unlock, {calls}");
}

#[test]
fn lost_samples_are_a_row_with_their_share_of_the_time() {
    let random = Xoshiro256PlusPlus::seed_from_u64(3);
    let slice = Slice { base: Base::Work, state: CpuState::Rest, ns: 1000, entries: 1 };
    let stack = |count| Stack {
        base: Base::Work,
        mode: CpuMode::User,
        frames: Vec::new(),
        kernel_frames: 0,
        count,
        ..samples(&mut Xoshiro256PlusPlus::seed_from_u64(0)).stacks[0].clone()
    };
    let lost_ns = |lost| {
        let stacks = vec![Stack { state: CpuState::Rest, ..stack(30) }];
        let sampled = SampledStacks { lost, stacks, ..samples(&mut random.clone()) };
        let cpus = vec![CpuTime { cpu: 0, length_ns: 1000, slices: vec![slice] }];
        let (locks, idle, others) = Default::default();
        let window = window(&mut random.clone());
        let window = Window { cpus, locks, idle, others, samples: Some(sampled), ..window };
        let look = look(0, vec![window]);
        let ledger = ledger(&[&look], &[&look]).unwrap();
        assert_eq!(ledger.broken(), None);
        ledger.find(&[WORK, "where samples were lost"]).map(|row| row.total_ns())
    };
    assert_eq!(lost_ns(10), Some(250));
    assert_eq!(lost_ns(0), None);
}

#[test]
fn looks_that_saw_nothing_make_no_ledger() {
    assert_eq!(ledger(&[], &[]), None);
    assert_eq!(ledger(&[&look(0, Vec::new())], &[]), None);
}

#[test]
fn a_lock_is_named_after_its_member_or_after_the_function_that_waits_for_it() {
    let lock = |place: &str, members: &[&str], callers: &[(&str, u64)]| LockTime {
        members: members.iter().map(|member| member.to_string()).collect(),
        callers: callers.iter().map(|(caller, times)| (caller.to_string(), *times)).collect(),
        spins: 1,
        spin_ns: 10,
        ..LockTime::new(Base::Work, place.to_string())
    };
    let mut window = window(&mut Xoshiro256PlusPlus::seed_from_u64(1));
    window.locks = vec![
        lock("a+1", &["a.lock"], &[("f", 3)]),
        lock("b+2", &["b.lock", "c.lock"], &[("f", 3), ("g", 9)]),
        lock("0xffff", &[], &[("futex_q_lock", 2), ("futex_wake", 7)]),
    ];
    let look = Profile { kind: ProfileKind::Names, ..look(0, vec![window]) };
    let names = LockNames::from_looks(&[&look]);
    let name = |place: &str, members: &[&str]| names.name(&lock(place, members, &[]));
    assert_eq!(name("a+1", &["a.lock"]), "a.lock");
    assert_eq!(name("b+2", &[]), "a lock in g (b+2)");
    assert_eq!(name("0xffff", &[]), "a lock in futex_wake");
    assert_eq!(name("0xfffe", &[]), "locks whose waiters were not looked at");
}

#[test]
fn unused_cpus_go_by_the_affinity_of_tasks_that_wait() {
    let slice = |base, ns| Slice { base, state: CpuState::Rest, ns, entries: 1 };
    let cpu = |cpu, base| CpuTime { cpu, length_ns: 1000, slices: vec![slice(base, 1000)] };
    let share = |name: &str, ns| Share { name: name.to_string(), ns, times: 1 };
    let rows = |waited_ns| {
        let plain = window(&mut Xoshiro256PlusPlus::seed_from_u64(1));
        let window = Window {
            cpus: vec![cpu(0, Base::Work), cpu(1, Base::Idle)],
            locks: Vec::new(),
            others: Vec::new(),
            samples: None,
            idle: vec![share("no task of the workload", 900), share("futex", 100)],
            waits: vec![
                share(OWN_TASK_ON_THE_ONLY_CPUS, waited_ns),
                share("throttled by a quota", 7),
            ],
            ..plain
        };
        let look = look(0, vec![window]);
        let ledger = ledger(&[&look], &[&look]).unwrap();
        assert_eq!(ledger.broken(), None);
        let ns = |row: &str| ledger.find(&[IDLE, row]).map(LedgerRow::total_ns);
        (ns(AFFINITY), ns("no task of the workload"), ns("futex"))
    };
    assert_eq!(rows(300), (Some(300), Some(600), Some(100)));
    assert_eq!(rows(5000), (Some(900), Some(0), Some(100)));
    assert_eq!(rows(0), (None, Some(900), Some(100)));
}
