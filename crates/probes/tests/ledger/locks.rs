//! Probes of locks: which lock tasks wait for, who they are, and how long each has it.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use records::{ProfileKind, Window};

use crate::{cpus, must_show, on_all_cpus, skip, watch};

#[test]
fn contention_spins_for_the_lock_of_a_file_by_its_name() {
    let file = tempfile::tempfile().unwrap();
    let file = file.as_raw_fd();
    let look = |kind| {
        watch("contention", kind, 0, |marker| {
            on_all_cpus(marker, 1, |index| {
                lock_range(file, 64 * index as i64, libc::F_RDLCK);
                lock_range(file, 64 * index as i64, libc::F_UNLCK);
            });
        })
    };
    let Some(timed) = look(ProfileKind::Time) else { return };
    let Some(named) = look(ProfileKind::Names) else { return };
    let is_file_lock =
        |members: &[String]| members.iter().any(|member| member == "file_lock_context.flc_lock");
    let spins = |window: &Window| {
        let spun = window.locks.iter().filter(|lock| is_file_lock(&lock.members));
        spun.map(|lock| lock.spins).sum::<u64>()
    };
    let [a, b] =
        [&timed, &named].map(|observed| observed.unavailable_probes.get("contention_begin"));
    if let Some(why) = a.or(b) {
        return skip("contention", why);
    }
    if cpus().len() == 1 {
        return skip("contention", "there is one CPU");
    }
    if let Some(why) = timed.unavailable_probes.get("bpf_get_kmem_cache") {
        return skip("contention", why);
    }
    if spins(&timed.windows[0]) == 0 && cpus().len() == 2 && !is_paravirtual() {
        return skip(
            "contention",
            "of two CPUs only one waits, of which native spinlocks say nothing",
        );
    }
    must_show("contention", || look(ProfileKind::Time), |window| spins(window) > 0);
    let is_called = |window: &Window| {
        let of_files = window.locks.iter().filter(|lock| is_file_lock(&lock.members));
        of_files.flat_map(|lock| &lock.callers).any(|(caller, _)| caller == "posix_lock_inode")
    };
    must_show("contention by name", || look(ProfileKind::Names), is_called);
}

fn is_paravirtual() -> bool {
    let host = probes::host(Path::new("/"));
    host.knobs.get("spinlocks").is_some_and(|kind| kind.contains("paravirtual"))
}

/// Takes or releases an open file description's lock.
pub fn lock_range(file: i32, start: i64, kind: i32) {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: 64,
        l_pid: 0,
    };
    // SAFETY: the lock is live during the call.
    assert_eq!(unsafe { libc::fcntl(file, libc::F_SETLKW, &lock) }, 0);
}

#[test]
fn names_include_the_sleeping_lock_of_a_file_and_its_waiters() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let megabyte = vec![0; 1 << 20];
    let observed = watch("names", ProfileKind::Names, 0, |marker| {
        // The lock holder is sometimes off its CPU: then the waiters sleep.
        on_all_cpus(marker, 3, |_| file.write_all_at(&megabyte, 0).unwrap());
    });
    let Some(observed) = observed else { return };
    if let Some(why) = observed.unavailable_probes.get("bpf_get_kmem_cache") {
        return skip("names", why);
    }
    let locks = &observed.windows[0].locks;
    let rwsem = locks.iter().find(|lock| lock.members.iter().any(|m| m.ends_with("i_rwsem")));
    assert!(rwsem.is_some_and(|lock| !lock.callers.is_empty()), "{locks:?}");
}

#[test]
fn a_lock_that_is_handed_over_says_how_long_tasks_had_it() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let megabyte = vec![0; 1 << 20];
    file.write_all_at(&megabyte, 0).unwrap();
    let watch = |per_cpu| {
        watch("held", ProfileKind::Names, 0, |marker| {
            on_all_cpus(marker, per_cpu, |_| file.write_all_at(&megabyte, 0).unwrap());
        })
    };
    let Some(observed) = watch(3) else { return };
    if let Some(why) = observed.unavailable_probes.get("bpf_get_kmem_cache") {
        return skip("held", why);
    }
    let mut writes_ns: Vec<u64> = (0..100)
        .map(|_| {
            let began = Instant::now();
            file.write_all_at(&megabyte, 0).unwrap();
            began.elapsed().as_nanos() as u64
        })
        .collect();
    writes_ns.sort_unstable();
    let locks = &observed.windows[0].locks;
    let rwsem = locks.iter().find(|lock| lock.members.iter().any(|m| m.ends_with("i_rwsem")));
    let (held, held_ns) = rwsem.map_or((0, 0), |lock| (lock.held, lock.held_ns));
    // A write has the lock nearly all its time, and is at times off its CPU with it.
    assert!(held > 0 && held_ns / held > writes_ns[0] / 2, "{writes_ns:?} {locks:?}");
}
