//! Each probe of the ledger on an example: it loads, fires, and counts what the example must
//! cause. Needs root and a kernel with BTF; elsewhere each test says why it does not run.
#![cfg(feature = "bpf")]

mod locks;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use locks::lock_range;
use probes::ledger::{Marker, Observations, WatchPlan, Watcher};
use records::{Base, CpuState, ProfileKind, Window};

/// A plan that watches all CPUs.
fn plan(kind: ProfileKind, hertz: u32) -> WatchPlan {
    let (room, knee) = (Duration::from_secs(2), std::process::id());
    let (cpus, functions) = (cpus(), Vec::new());
    WatchPlan { kind, hertz, room, cpus, tasks: 0, bursts: false, knee, functions }
}

/// Watches all CPUs while `example` runs; `None` if this host does not permit it.
fn watch(
    test: &str,
    kind: ProfileKind,
    hertz: u32,
    example: impl FnOnce(Marker),
) -> Option<Observations> {
    watch_by(test, plan(kind, hertz), example)
}

fn watch_by(test: &str, plan: WatchPlan, example: impl FnOnce(Marker)) -> Option<Observations> {
    // One example at a time, as some use all CPUs.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut watcher = match Watcher::begin(plan) {
        Ok(watcher) => watcher,
        Err(why) => {
            skip(test, &why);
            return None;
        }
    };
    watcher.take_snapshot(0).unwrap();
    example(watcher.marker());
    watcher.take_snapshot(0).unwrap();
    let observed = watcher.end();
    assert_eq!(observed.windows.len(), 1);
    // Without it a few microseconds may be lost.
    if !observed.unavailable_probes.contains_key("bpf_local_irq_save") {
        assert_eq!(observed.windows[0].broken_law(), None);
    }
    Some(observed)
}

/// Watches until the window shows what the example causes: kernels do not report every switch, and other tasks come
/// and go. If other tasks had a tenth of the CPUs each time, this host cannot show it now.
fn must_show(
    test: &str,
    mut watch: impl FnMut() -> Option<Observations>,
    shows: impl Fn(&Window) -> bool,
) {
    const TRIES: usize = 3;
    let mut seen: Vec<Window> = Vec::new();
    for _ in 0..TRIES {
        let Some(mut observed) = watch() else { return };
        let window = observed.windows.remove(0);
        if shows(&window) {
            return;
        }
        seen.push(window);
    }
    let is_disturbed =
        |one: &Window| time_ns(one, Base::Other, CpuState::Rest) > one.budget_ns() / 10;
    if seen.iter().all(is_disturbed) {
        return skip(test, "other tasks had more than a tenth of the CPUs each time");
    }
    let told: Vec<_> = seen.iter().map(|one| (&one.idle, &one.waits, &one.locks)).collect();
    panic!("{test}: {told:?}");
}

fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
    let Some(path) = std::env::var_os("KNEE_SKIPS") else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    writeln!(file, "probes: {test}: {why}").unwrap();
}

fn cpus() -> Vec<u32> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    host::parse_cpu_list(online.trim()).unwrap()
}

/// Runs `work` on a marked thread of its own, as a task of the workload.
fn as_work<T: Send>(marker: Marker, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let marked = scope.spawn(move || {
            marker.mark().unwrap();
            work()
        });
        marked.join().unwrap()
    })
}

/// Repeats `work` for 300 ms on `per_cpu` marked threads of each CPU.
fn on_all_cpus(marker: Marker, per_cpu: usize, work: impl Fn(usize) + Sync) {
    let end = AtomicBool::new(false);
    let (end, work) = (&end, &work);
    std::thread::scope(|scope| {
        for (index, cpu) in cpus().repeat(per_cpu).into_iter().enumerate() {
            scope.spawn(move || {
                pin(cpu);
                marker.mark().unwrap();
                while !end.load(Ordering::Relaxed) {
                    work(index);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        end.store(true, Ordering::Relaxed);
    });
}

fn pin(cpu: u32) {
    // SAFETY: an all-zero set is a valid one; it is live during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// Counts events of `example`, which runs on a marked thread.
fn counted(test: &str, example: impl FnOnce() + Send) -> Option<Observations> {
    watch(test, ProfileKind::Counts, 0, |marker| as_work(marker, example))
}

/// A count; `None` if the program that makes it is unavailable.
fn times(observed: &Observations, name: &str, program: &str) -> Option<u64> {
    match observed.unavailable_probes.get(program) {
        Some(why) => {
            skip(name, why);
            None
        }
        None => Some(observed.windows[0].counts[name]),
    }
}

fn time_ns(window: &Window, base: Base, state: CpuState) -> u64 {
    window.time_ns(|b, s| b == base && s == state)
}

#[test]
fn scheduler_gives_busy_time_to_the_workload_and_sleep_to_its_reason() {
    let mut used_ns = 0;
    let observed = watch("scheduler", ProfileKind::Time, 0, |marker| {
        used_ns = as_work(marker, || {
            // CPU time of this thread, whatever share of the CPU other tasks have.
            while cpu_clock_ns() < 50_000_000 {}
            (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
            cpu_clock_ns()
        });
    });
    let Some(observed) = observed else { return };
    let window = &observed.windows[0];
    let work_ns = window.time_ns(|base, state| base == Base::Work && state != CpuState::Steal);
    // A switch that the kernel does not report is found at the next tick.
    let unseen = window.anomalies.get("unseen switches").copied().unwrap_or(0);
    let off_max_ns = used_ns / 10 + 10_000_000 * unseen;
    assert!(
        work_ns.abs_diff(used_ns) <= off_max_ns,
        "{work_ns} ns of work, {used_ns} ns by the thread's clock, {unseen} unseen switches"
    );
    let slept = window.idle.iter().any(|share| share.name == "sleep (clock_nanosleep)");
    let woken = window.idle.iter().any(|share| share.name == "wake-up latency");
    // If other tasks come and go, the CPU becomes idle after them.
    let others_ns = time_ns(window, Base::Other, CpuState::Rest);
    let has_others = others_ns > window.budget_ns() / 10;
    assert!((slept && woken) || has_others, "{:?}, {others_ns} ns of others", window.idle);
}

/// A reason of idle time, in ms.
fn idle_ms(window: &Window, reason: &str) -> u64 {
    let shares = window.idle.iter().filter(|share| share.name == reason);
    shares.map(|share| share.ns / 1_000_000).sum()
}

/// How long runnable tasks waited, in ms, by what kept them from a CPU.
fn waited_ms(window: &Window, what: &str) -> u64 {
    let waits = window.waits.iter().filter(|wait| wait.name == what);
    waits.map(|wait| wait.ns / 1_000_000).sum()
}

/// Runs `works` on marked threads of one CPU.
fn on_one_cpu(marker: Marker, works: &[&(dyn Fn() + Sync)]) {
    std::thread::scope(|scope| {
        for work in works {
            scope.spawn(move || {
                pin(cpus()[0]);
                marker.mark().unwrap();
                work();
            });
        }
    });
}

fn spin(ms: u64) {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {}
}

/// A task reads a pipe into which nothing is written for 220 ms; another leaves their CPU after it, and sleeps
/// for longer. `None` if this host cannot watch.
fn reader_and_sleeper() -> Option<Observations> {
    let (mut read, mut write) = std::io::pipe().unwrap();
    watch("idle by what ended it", ProfileKind::Time, 0, |marker| {
        let sleeper = || {
            std::thread::sleep(Duration::from_millis(20));
            std::thread::sleep(Duration::from_millis(500));
        };
        let reader = move || {
            read.read_exact(&mut [0]).unwrap();
            spin(1);
        };
        let reader = Mutex::new(Some(reader));
        let reader = || reader.lock().unwrap().take().unwrap()();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(220));
                write.write_all(&[0]).unwrap();
            });
            on_one_cpu(marker, &[&reader, &sleeper]);
        });
    })
}

#[test]
fn idle_time_is_charged_to_the_wait_that_ended_it() {
    let is_charged = |window: &Window| idle_ms(window, "pipe (read)") >= 100;
    must_show("idle by what ended it", reader_and_sleeper, is_charged);
}

#[test]
fn tasks_that_share_a_cpu_wait_for_each_other() {
    let share = || {
        watch("tasks that share a CPU", ProfileKind::Time, 0, |marker| {
            on_one_cpu(marker, &[&|| spin(200), &|| spin(200)]);
        })
    };
    let name = match cpus().len() {
        1 => records::OWN_TASK,
        _ => records::OWN_TASK_ON_THE_ONLY_CPUS,
    };
    must_show("tasks that share a CPU", share, |window| waited_ms(window, name) >= 50);
}

#[test]
fn a_task_waits_for_tasks_of_others() {
    let share = || {
        watch("tasks of others", ProfileKind::Time, 0, |marker| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pin(cpus()[0]);
                    spin(250);
                });
                on_one_cpu(marker, &[&|| spin(200)]);
            });
        })
    };
    must_show("tasks of others", share, |window| waited_ms(window, records::OTHER_TASK) >= 50);
}

/// A cgroup of its own; removed when it goes out of scope.
struct Cgroup(std::path::PathBuf);

/// A file of a controller, and what is written to it.
type Limit = (&'static str, &'static str);

/// 20 ms of every 100 ms.
const CPU_QUOTA: (Limit, Limit) = (("cpu/cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000"));
/// Less memory than the test writes.
const MEMORY: (Limit, Limit) = (("memory/memory.limit_in_bytes", "8M"), ("memory.high", "8M"));

impl Cgroup {
    /// A cgroup whose tasks have a limit, by version 1 or 2; `None` if this host has no such.
    fn with((version_1, version_2): (Limit, Limit)) -> Option<Cgroup> {
        let root = Path::new("/sys/fs/cgroup");
        let (folder, name, value) = match version_1.0.split_once('/') {
            Some((folder, name)) if root.join(folder).exists() => (folder, name, version_1.1),
            _ => ("", version_2.0, version_2.1),
        };
        let group =
            Cgroup(root.join(folder).join(format!("knee-test-{}-{name}", std::process::id())));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join(name), value).ok()?;
        Some(group)
    }

    /// Watches a shell's script in the cgroup.
    fn watch(&self, what: &str, script: &str) -> Option<Observations> {
        let enter = format!("echo 0 > {}/cgroup.procs && {script}", self.0.display());
        watch(what, ProfileKind::Time, 0, |marker| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &enter]);
            // SAFETY: the mark makes plain system calls only.
            unsafe {
                std::os::unix::process::CommandExt::pre_exec(&mut shell, move || marker.mark())
            };
            assert!(shell.status().unwrap().success());
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn idle_time_that_a_quota_causes_has_its_name() {
    let Some(group) = Cgroup::with(CPU_QUOTA) else {
        return skip("quota", "no cgroup with a quota of CPU time can be made here");
    };
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
    must_show(
        "quota",
        || group.watch("quota", script),
        |window| {
            idle_ms(window, "quota of a cgroup") >= 40 && waited_ms(window, records::QUOTA) >= 40
        },
    );
}

#[test]
fn idle_time_that_reclaim_causes_has_its_name() {
    let Some(group) = Cgroup::with(MEMORY) else {
        return skip("reclaim", "no cgroup with a limit of memory can be made here");
    };
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/reclaim");
    let script = format!("dd if=/dev/zero of={file} bs=1M count=300 2> /dev/null; rm {file}");
    // In whichever call: a page cache that is full of dirty pages waits for their writeback.
    let waits = |window: &Window| {
        let of_reclaim =
            window.idle.iter().filter(|share| share.name.starts_with("memory reclaim"));
        of_reclaim.map(|share| share.ns).sum::<u64>() >= 1_000_000
    };
    must_show("reclaim", || group.watch("reclaim", &script), waits);
}

fn cpu_clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn interrupts_are_counted_by_vector_beneath_what_they_interrupt() {
    let observed =
        watch("interrupts", ProfileKind::Time, 0, |marker| on_all_cpus(marker, 1, |_| {}));
    let Some(observed) = observed else { return };
    let slices = || observed.windows[0].slices().filter(|slice| slice.base == Base::Work);
    let timer: u64 =
        slices().filter(|s| s.state == CpuState::IrqTimer).map(|slice| slice.entries).sum();
    // At least 100 ticks per second and busy CPU; other programs may share the CPUs.
    assert!(timer >= 10, "{timer} timer interrupts");
}

#[test]
fn samples_are_taken_with_the_kernel_functions_they_hit() {
    let observed = watch("samples", ProfileKind::Time, 997, |marker| {
        on_all_cpus(marker, 1, |_| drop(std::fs::metadata("/proc/self")));
    });
    let Some(samples) = observed.and_then(|observed| observed.windows[0].samples.clone()) else {
        return;
    };
    let of_work: u64 =
        samples.stacks.iter().filter(|s| s.base == Base::Work).map(|stack| stack.count).sum();
    assert!(of_work > 50, "{of_work} samples");
    assert_eq!(samples.lost, 0);
    assert!(samples.functions.iter().any(|name| name.contains("do_syscall_64")));
}

#[inline(never)]
fn read_the_clock_a_lot() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {}
}

#[test]
fn samples_in_the_vdso_have_the_function_that_called_the_library() {
    let observed = watch("vdso", ProfileKind::Time, 999, |marker| {
        as_work(marker, read_the_clock_a_lot);
    });
    let Some(observed) = observed else { return };
    let samples = observed.windows[0].samples.as_ref().expect("samples");
    let name = |index: &u32| samples.functions[*index as usize].as_str();
    let chains = samples.stacks.iter().map(|stack| stack.frames.iter().map(name).collect());
    let chains: Vec<Vec<&str>> = chains.collect();
    let of_vdso = |chain: &&Vec<&str>| chain[..].first().is_some_and(|f| f.ends_with("(vdso)"));
    if !chains.iter().any(|chain| of_vdso(&chain)) {
        return skip("vdso", "the clock of this host is read by a system call");
    }
    let caller = |chain: &Vec<&str>| {
        chain.iter().any(|f| f.contains("Instant") || f.contains("read_the_clock_a_lot"))
    };
    assert!(chains.iter().filter(of_vdso).any(caller), "{chains:?}");
}

#[test]
fn samples_that_find_no_room_are_counted_as_lost() {
    let plan = WatchPlan { room: Duration::ZERO, ..plan(ProfileKind::Time, 10_000) };
    let observed = watch_by("lost samples", plan, |marker| {
        on_all_cpus(marker, 1, |_| drop(std::fs::metadata("/proc/self")));
    });
    let Some(samples) = observed.and_then(|observed| observed.windows[0].samples.clone()) else {
        return;
    };
    let taken: u64 = samples.stacks.iter().map(|stack| stack.count).sum();
    assert!(taken > 0 && samples.lost > taken, "{taken} taken, {} lost", samples.lost);
}

#[test]
fn system_calls_are_counted_by_name() {
    let observed = counted("system calls", || {
        for _ in 0..1000 {
            // SAFETY: no preconditions.
            unsafe { libc::getppid() };
        }
    });
    let Some(observed) = observed else { return };
    assert_eq!(times(&observed, "syscall.getppid", "count_sys_enter"), Some(1000));
    assert!(observed.windows[0].count("syscall.mount") == Some((0, 0)), "none is not unknown");
}

#[test]
fn faults_are_counted() {
    const PAGES: usize = 256;
    let observed = counted("faults", || {
        let mapped = map_pages(PAGES);
        // SAFETY: written within the mapping.
        (0..PAGES).for_each(|page| unsafe { mapped.add(page * 4096).write_volatile(1) });
        // SAFETY: as it was mapped.
        unsafe { libc::munmap(mapped.cast(), PAGES * 4096) };
    });
    let Some(observed) = observed else { return };
    let faults = times(&observed, "fault.user", "count_page_fault_user").unwrap();
    assert!((PAGES as u64..PAGES as u64 + 64).contains(&faults), "{faults} faults");
}

/// Private memory in small pages.
fn map_pages(pages: usize) -> *mut u8 {
    // SAFETY: a new mapping.
    unsafe {
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let mapped = libc::mmap(std::ptr::null_mut(), pages * 4096, writable, how, -1, 0);
        assert_ne!(mapped, libc::MAP_FAILED);
        libc::madvise(mapped, pages * 4096, libc::MADV_NOHUGEPAGE);
        mapped.cast()
    }
}

#[test]
fn flushes_of_another_cpu_are_counted_by_reason_with_the_interrupts_that_ask_for_them() {
    let [first, second] = cpus()[..] else { return skip("flushes", "there are not two CPUs") };
    let look = |kind| watch("flushes", kind, 0, |marker| flush(marker, first, second));
    let (Some(observed), Some(named)) = (look(ProfileKind::Counts), look(ProfileKind::Names))
    else {
        return;
    };
    let count = |name: &str, program| times(&observed, name, program).unwrap_or(0);
    let sent = count("tlb_flush.shootdown_sent", "count_tlb_flush");
    let pages = count("tlb_pages.shootdown_sent", "count_tlb_flush");
    let calls = count("ipi.call_one", "count_ipi_send_cpu")
        + count("ipi.call_many", "count_ipi_send_cpumask");
    // If the host has descheduled the other vCPU, a guest may leave it the flush, without an IPI.
    assert!(sent > 0 && pages >= sent, "{sent} flushes of {pages} pages");
    assert!(calls <= sent + 100, "{calls} interrupts for {sent} flushes");
    let senders = &named.windows[0].senders;
    let of_calls = senders.iter().filter(|(event, _)| event.starts_with("ipi.call"));
    let functions: Vec<&String> = of_calls.flat_map(|(_, senders)| senders.keys()).collect();
    if calls == 0 || functions.is_empty() {
        return skip(
            "senders of flushes",
            "the other CPU had other tasks: no flush needed an interrupt",
        );
    }
    assert!(functions.iter().any(|name| name.contains("flush_tlb")), "{senders:?}");
}

/// Repeatedly discards a page that a thread on another CPU may have in its TLB.
fn flush(marker: Marker, first: u32, second: u32) {
    let (end, mapped) = (&AtomicBool::new(false), map_pages(8) as usize);
    std::thread::scope(|scope| {
        // Keeps the address space in use on the other CPU.
        scope.spawn(move || {
            pin(second);
            while !end.load(Ordering::Relaxed) {
                // SAFETY: read within the mapping.
                unsafe { (mapped as *const u8).read_volatile() };
            }
        });
        as_work(marker, move || {
            pin(first);
            for _ in 0..2000 {
                // SAFETY: within the mapping.
                unsafe {
                    (mapped as *mut u8).write_volatile(1);
                    libc::madvise(mapped as *mut _, 4096, libc::MADV_DONTNEED);
                }
            }
        });
        end.store(true, Ordering::Relaxed);
    });
}

#[test]
fn migrations_and_wake_ups_are_counted() {
    let [first, second] = cpus()[..] else { return skip("migrations", "there are not two CPUs") };
    let observed = counted("migrations", || {
        for _ in 0..50 {
            pin(first);
            pin(second);
        }
        let (asks, answers) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            // Started by a marked thread, therefore marked too.
            scope.spawn(move || asks.1.iter().for_each(|()| answers.0.send(()).unwrap()));
            for _ in 0..100 {
                asks.0.send(()).unwrap();
                answers.1.recv().unwrap();
            }
            drop(asks.0);
        });
    });
    let Some(observed) = observed else { return };
    let migrations = times(&observed, "migration", "count_sched_migrate_task").unwrap();
    assert!((99..150).contains(&migrations), "{migrations} migrations");
    let woken = times(&observed, "wake_up", "count_sched_waking").unwrap();
    assert!(woken > 0, "{woken} wake-ups");
}

#[test]
fn file_locks_of_each_kind_are_counted() {
    let observed = counted("file locks", || {
        let file = tempfile::tempfile().unwrap();
        let number = file.as_raw_fd();
        for _ in 0..100 {
            lock_range(number, 0, libc::F_RDLCK);
            lock_range(number, 0, libc::F_UNLCK);
            // SAFETY: an open file.
            unsafe {
                assert_eq!(libc::flock(number, libc::LOCK_EX), 0);
                assert_eq!(libc::flock(number, libc::LOCK_UN), 0);
            }
        }
    });
    let Some(observed) = observed else { return };
    let check = |name, program| {
        if let Some(times) = times(&observed, name, program) {
            assert_eq!(times, 200, "{name}");
        }
    };
    check("file_lock.posix", "count_posix_lock_inode");
    check("file_lock.flock", "count_flock_lock_inode");
}

#[test]
fn calls_of_named_functions_are_counted_or_unavailable_with_a_reason() {
    let functions = ["posix_lock_inode", "no_such_function"].map(str::to_string).to_vec();
    let plan = WatchPlan { functions, ..plan(ProfileKind::Counts, 0) };
    let observed = watch_by("functions", plan, |marker| {
        as_work(marker, || {
            let file = tempfile::tempfile().unwrap();
            for _ in 0..100 {
                lock_range(file.as_raw_fd(), 0, libc::F_RDLCK);
                lock_range(file.as_raw_fd(), 0, libc::F_UNLCK);
            }
        });
    });
    let Some(observed) = observed else { return };
    assert!(
        observed.unavailable_probes.contains_key("function no_such_function"),
        "{:?}",
        observed.unavailable_probes
    );
    match observed.unavailable_probes.get("function posix_lock_inode") {
        Some(why) => skip("functions", why),
        None => assert_eq!(observed.windows[0].counts["function.posix_lock_inode"], 200),
    }
}

#[test]
fn hardware_counters_count_or_are_unavailable_with_a_reason() {
    let observed =
        watch("hardware", ProfileKind::Counts, 0, |marker| on_all_cpus(marker, 1, |_| {}));
    let Some(observed) = observed else { return };
    if let Some(why) = observed.unavailable_probes.get("hardware counters") {
        return skip("hardware counters", why);
    }
    let counts = &observed.windows[0].counts;
    assert!(counts["hardware.instructions"] > 1_000_000, "{counts:?}");
    assert!(counts["hardware.cycles"] > 1_000_000, "{counts:?}");
}

#[test]
fn the_journal_of_a_file_system_is_counted() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let name = CString::new(home.path().as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name and the result are live.
    let kind = unsafe {
        let mut told: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(name.as_ptr(), &mut told), 0);
        told.f_type
    };
    let (count, program) = match kind {
        libc::EXT4_SUPER_MAGIC if journals("/proc/fs/jbd2") => {
            ("journal.start", "count_jbd2_handle_start")
        }
        libc::XFS_SUPER_MAGIC => ("xfs_log.reserve", "count_xfs_log_reserve"),
        _ => return skip("journal", "/var/tmp has no journal that is traced"),
    };
    let observed = counted("journal", || {
        (0..100).for_each(|number| make(&home.path().join(number.to_string())));
    });
    let Some(observed) = observed else { return };
    if let Some(times) = times(&observed, count, program) {
        assert!(times >= 100, "{times} for 100 files");
    }
}

fn journals(folder: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|journals| journals.count() > 0)
}

fn make(path: &Path) {
    File::create(path).unwrap();
}
