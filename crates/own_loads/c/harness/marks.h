/* A traced run: the task says by stores to one page when its windows begin and end, and the plugin of QEMU that watches
 * the guest sees them (crates/guests/plugin/accesses.c; crates/host/src/marks.rs does the same). The counts lie on the
 * pages behind, so that a test which counts by itself marks each operation.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#define MARKS 0x133700000000ul
enum { MARK_ARM = 255, MARK_COUNTS = 254, MARKS_BYTES = 0x1000 };

static void set_mark(unsigned number)
{
	((volatile uint64_t *)MARKS)[number] = 1;
}

/* Maps the page of marks, which all tasks have from then on. */
static void map_marks(void)
{
	if (mmap((void *)MARKS, MARKS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	    (void *)MARKS) {
		perror("mapping the page of marks");
		exit(1);
	}
}

/* Has everything watched from now on, but counted only in windows. The plugin knows this task from its next switch on, so
 * it sleeps. */
static void arm_marks(void)
{
	const struct timespec moment = { 0, 1000000 };

	set_mark(MARK_ARM);
	nanosleep(&moment, NULL);
}

/* Like knee_drive(), with a warm-up of a quarter of the operations, a window of as many, and one of twice as many. */
static int drive_windows(void *load, const struct knee_control *control)
{
	unsigned long long quarter = control->limit / 4, one;
	const struct knee_control single = { control->stop, &one, 1 };

	for (unsigned long long done = 0; done < 4 * quarter; done++) {
		int result;

		one = 0;
		set_mark(done < quarter ? 0 : done < 2 * quarter ? 1 : 2);
		result = knee_drive(load, &single);
		set_mark(0);
		if (result || !one)
			return result;
		__atomic_store_n(control->count, done + 1, __ATOMIC_RELAXED);
		/* QEMU goes on with the next vCPU: the tasks' operations take turns. */
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	return 0;
}
