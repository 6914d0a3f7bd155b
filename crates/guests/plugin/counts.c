/* A plugin of QEMU's user mode: how often a program executes each block of instructions, and its system calls. Counts go
 * straight into memory that knee shares (counted.rs has the other side).
 *
 *     program ── clone ──> thread or child: QEMU forks too, and counts in the same memory
 *             └─ execve ─> QEMU would leave its emulation. So the plugin starts QEMU on the new program, with itself
 *
 * A block is known by where its code lies in its file, so a library's counts are the same whatever its address is, and
 * those of many processes add up. Code in no file (JIT) is one object.
 *
 * QEMU executes a repeated string instruction (rep movsb) once for each repetition, as a block of its own. Here it is one
 * instruction: repetitions follow a block that ends with it.
 *
 *     [... rep] ─> [rep] ─> [rep] ─> [next ...]
 *     counted      not      not      counted
 *
 * QEMU is started with this file preloaded, too: then getrandom(2) of the program always returns the same numbers.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "interface.h"

/* The C library's, which QEMU has loaded. */
int open(const char *, int, ...);
int close(int);
long read(int, void *, size_t);
int access(const char *, int);
int statx(int, const char *, int, unsigned, void *);
int execve(const char *, char *const *, char *const *);
char *getenv(const char *);
int *__errno_location(void);
void *mmap(void *, size_t, int, int, int, long);
int munmap(void *, size_t);

#define OBJECTS 1024
#define PATH_BYTES 4096
#define SYSTEM_CALLS 1024
#define UNCOUNTED 16
#define RANGES 8192
#define CPUS 1024
#define SCRIPTS 4
#define ARGUMENTS (2 * SCRIPTS + 1)

/* A block: its number of instructions << 52 | its object << 36 | its offset in that file. Key 0: free. */
struct slot { uint64_t key, executions; };

/* A file with code. Its number is its place in the table; 0 is code in no file. */
struct object {
	uint32_t state;                /* 0 free, 1 being filled, 2 filled */
	char path[PATH_BYTES - 4];
};

/* The memory shared with knee. Rust: the offsets in counted.rs. */
struct head {
	uint64_t bytes;                /* of the whole mapping */
	uint64_t slots;                /* of the table, a power of two */
	uint64_t installed;            /* QEMUs that use this memory */
	uint64_t is_parallel;          /* whether the program has cloned itself: then several write at once */
	struct slot lost;              /* executions of blocks for which the table had no room */
	uint64_t uncounted;            /* programs that were started, but not under QEMU */
	char uncounted_paths[UNCOUNTED][PATH_BYTES];
	char qemu[PATH_BYTES];         /* what starts QEMU */
	char plugin[PATH_BYTES];       /* this file */
	char plugin_argument[PATH_BYTES];
	uint64_t system_calls[SYSTEM_CALLS];
	struct object objects[OBJECTS];
};

/* The numbers of the system calls that are looked at. */
struct calls { int64_t mmap, clone, fork, vfork, clone3, execve, execveat; };
static const struct calls x86_calls = { 9, 56, 57, 58, 435, 59, 322 };
static const struct calls arm_calls = { 222, 220, -1, -1, 435, 221, 281 };

/* A mapping of a file in this process. */
struct range { uint64_t start, end, offset, object; };

static struct head *head;
static struct slot *table;
static const struct calls *calls;
static int is_x86;
static struct range ranges[RANGES];
static size_t used_ranges;
/* Whether the program may have mapped code since `ranges` was read. */
static int is_stale = 1;
/* Where the program's address 0 is in QEMU's memory. */
static uint64_t guest_base;
/* 1 + the place in uncounted_paths of the program that this process starts, until the start fails. */
static uint64_t starting;

/* The string instruction that each CPU executed last, as its block, if nothing came after it. */
static struct { struct slot *repeating; } __attribute__((aligned(64))) cpus[CPUS];

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

static int begins_with(const char *text, const char *start)
{
	while (*start && *text == *start)
		text++, start++;
	return !*start;
}

static int is_equal(const char *a, const char *b)
{
	return begins_with(a, b) && length(a) == length(b);
}

static void copy(char *to, const char *from, size_t room)
{
	size_t k = 0;

	for (; from[k] && k + 1 < room; k++)
		to[k] = from[k];
	to[k] = 0;
}

static void count(uint64_t *counter)
{
	if (head->is_parallel)
		__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
	else
		++*counter;
}

/* The slot of a block, maybe a new one. */
static struct slot *slot_of(uint64_t instructions, uint64_t object, uint64_t offset)
{
	uint64_t key = instructions << 52 | object << 36 | offset;
	uint64_t hash = key * 0x9e3779b97f4a7c15ull >> 20;

	if (instructions >> 12 || offset >> 36)
		return &head->lost;
	for (unsigned k = 0; k < 256; k++) {
		struct slot *slot = &table[(hash + k) & (head->slots - 1)];
		uint64_t before = 0;

		if (__atomic_compare_exchange_n(&slot->key, &before, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    before == key)
			return slot;
	}
	return &head->lost;
}

/* The number of a file; 0 if there is no room. Two processes may enter one twice. */
static uint64_t object_of(const char *path)
{
	for (uint64_t k = 1; k < OBJECTS; k++) {
		struct object *object = &head->objects[k];
		uint32_t state = __atomic_load_n(&object->state, __ATOMIC_ACQUIRE);

		if (!state && __atomic_compare_exchange_n(&object->state, &state, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
			copy(object->path, path, sizeof(object->path));
			__atomic_store_n(&object->state, 2, __ATOMIC_RELEASE);
			return k;
		}
		if (state == 2 && is_equal(object->path, path))
			return k;
	}
	return 0;
}

static uint64_t hexadecimal(const char **text)
{
	uint64_t value = 0;

	for (;; ++*text) {
		char c = **text;

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			return value;
	}
}

/* Whether code of a mapping has a place in a file that lasts: not that of memory with a name, where JITs keep theirs. */
static int is_file(const char *path)
{
	return *path == '/' && !begins_with(path, "/memfd:") && !begins_with(path, "/dev/") && !begins_with(path, "/SYSV");
}

/* A line of /proc/self/maps: START-END PERMISSIONS OFFSET DEVICE INODE PATH. */
static void take_mapping(const char *line)
{
	struct range *range = &ranges[used_ranges];

	range->start = hexadecimal(&line);
	line++;
	range->end = hexadecimal(&line);
	for (int field = 1; field < 5; field++) {
		while (*line && *line != ' ')
			line++;
		while (*line == ' ')
			line++;
		if (field == 2)
			range->offset = hexadecimal(&line);
	}
	while (*line && *line != ' ')
		line++;
	while (*line == ' ')
		line++;
	if (!is_file(line) || used_ranges == RANGES - 1)
		return;
	range->object = used_ranges && is_equal(head->objects[range[-1].object].path, line) ? range[-1].object : object_of(line);
	used_ranges += range->object > 0;
}

/* QEMU maps the program's files into its own memory. */
static void read_mappings(void)
{
	static char text[1 << 14];
	int file = open("/proc/self/maps", 0x80000 /* O_CLOEXEC */);
	size_t kept = 0;
	long n;

	used_ranges = 0;
	while (file >= 0 && (n = read(file, text + kept, sizeof(text) - kept)) > 0) {
		size_t end = kept + n, start = 0;

		for (size_t at = kept; at < end; at++) {
			if (text[at] != '\n')
				continue;
			text[at] = 0;
			take_mapping(text + start);
			start = at + 1;
		}
		for (kept = 0; start + kept < end; kept++)
			text[kept] = text[start + kept];
	}
	if (file >= 0)
		close(file);
}

/* The file that has this address, or NULL. */
static const struct range *range_of(uint64_t address)
{
	size_t low = 0, high = used_ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < used_ranges && ranges[low].start <= address ? &ranges[low] : NULL;
}

static void on_block(unsigned cpu, void *slot)
{
	cpus[cpu % CPUS].repeating = NULL;
	count(&((struct slot *)slot)->executions);
}

/* A block that is only a repeated instruction. */
static void on_repetition(unsigned cpu, void *slot)
{
	if (cpus[cpu % CPUS].repeating == slot)
		return;
	cpus[cpu % CPUS].repeating = slot;
	count(&((struct slot *)slot)->executions);
}

/* A repeated instruction that ends a block. */
static void on_first_repetition(unsigned cpu, void *slot)
{
	cpus[cpu % CPUS].repeating = slot;
}

/* Whether an instruction is a string instruction with a prefix that repeats it: movs, cmps, stos, lods, scas. */
static int is_repeated(const struct instruction *instruction)
{
	size_t size = qemu_plugin_insn_size(instruction), at = 0;
	int has_prefix = 0;
#if PLUGIN_API < 3
	const uint8_t *bytes = qemu_plugin_insn_data(instruction);
#else
	uint8_t bytes[16];

	size = qemu_plugin_insn_data(instruction, bytes, size < 16 ? size : 16);
#endif
	for (; at < size; at++) {
		uint8_t byte = bytes[at];

		if (byte == 0xf2 || byte == 0xf3)
			has_prefix = 1;
		else if (byte != 0x66 && byte != 0x67 && byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26 &&
			 byte != 0x64 && byte != 0x65 && (byte & 0xf0) != 0x40)
			break;
	}
	return is_x86 && has_prefix && at < size && bytes[at] >= 0xa4 && bytes[at] <= 0xaf && bytes[at] != 0xa8 &&
	       bytes[at] != 0xa9;
}

static void translate(plugin_id id, struct block *block)
{
	size_t n = qemu_plugin_tb_n_insns(block);
	struct instruction *last = qemu_plugin_tb_get_insn(block, n - 1);
	uint64_t host = (uint64_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(block, 0));
	uint64_t address = qemu_plugin_tb_vaddr(block), size = 0, object = 0, offset = 0;
	const struct range *range;

	(void)id;
	if (host)
		guest_base = host - address;
	if (__atomic_exchange_n(&is_stale, 0, __ATOMIC_RELAXED))
		read_mappings();
	range = range_of(address + guest_base);
	if (range) {
		object = range->object;
		offset = address + guest_base - range->start + range->offset;
	}
	if (is_repeated(last)) {
		struct slot *slot;

		for (size_t k = 0; k + 1 < n; k++)
			size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(block, k));
		slot = slot_of(1, object, object ? offset + size : (address + size) & 0xffff);
		if (n == 1) {
			qemu_plugin_register_vcpu_tb_exec_cb(block, on_repetition, 0, slot);
			return;
		}
		qemu_plugin_register_vcpu_insn_exec_cb(last, on_first_repetition, 0, slot);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0, slot_of(n, object, offset));
}

/* Fills memory with the same numbers in every run of a program. */
static void fill(uint8_t *bytes, size_t n)
{
	static uint64_t state;

	for (size_t k = 0; k < n; k++) {
		uint64_t z = __atomic_add_fetch(&state, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ z >> 27) * 0x94d049bb133111ebull;
		bytes[k] = z >> 56;
	}
}

/* By which QEMU does getrandom(2) of the program, among others. This definition comes before that of the C library, since
 * QEMU is started with this file preloaded. */
EXPORT long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;

	if (number == 318) {
		fill((uint8_t *)a, b);
		return b;
	}
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e, x5 __asm__("x5") = f, x8 __asm__("x8") = number;

	if (number == 278) {
		fill((uint8_t *)a, b);
		return b;
	}
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8) : "memory");
	result = x0;
#endif
	if (result >= 0 || result < -4095)
		return result;
	*__errno_location() = -result;
	return -1;
}

/* A program to be started: the ELF file, and the arguments that replace the first one of its caller. */
struct start {
	const char *path;
	const char *arguments[ARGUMENTS];
	size_t first;                  /* in use of them; the last is always */
	char line[SCRIPTS][256];       /* the first lines of scripts */
};

/* Splits `#! INTERPRETER ARGUMENT`, and puts both before the script. */
static void take_interpreter(struct start *start, char *line)
{
	char *name = line + 2, *end, *argument;

	for (end = line; *end && *end != '\n'; end++)
		;
	while (end > name && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = 0;
	while (*name == ' ' || *name == '\t')
		name++;
	for (argument = name; *argument && *argument != ' ' && *argument != '\t'; argument++)
		;
	if (*argument)
		*argument++ = 0;
	while (*argument == ' ' || *argument == '\t')
		argument++;
	start->arguments[start->first] = start->path;
	if (*argument)
		start->arguments[--start->first] = argument;
	start->arguments[--start->first] = start->path = name;
}

/* Whether a path can be executed under QEMU: by itself, or by its interpreter. */
static enum kind { FAILS, NOT_FOLLOWED, FOLLOWED } resolve(struct start *start)
{
	for (int depth = 0; depth < SCRIPTS; depth++) {
		struct { char before[28]; uint16_t mode; char after[226]; } status = { .mode = 0 };
		char *line = start->line[depth];
		int file = open(start->path, 0x80000 /* O_CLOEXEC */);
		long n = file >= 0 ? read(file, line, sizeof(start->line[depth]) - 1) : 0;

		if (file >= 0)
			close(file);
		if (access(start->path, 1))
			return FAILS;
		if (n < 2)
			return NOT_FOLLOWED;
		line[n] = 0;
		if (line[0] == '#' && line[1] == '!') {
			take_interpreter(start, line);
			continue;
		}
		/* The kernel ignores these bits of scripts. QEMU cannot become another user. */
		if (statx(-100 /* AT_FDCWD */, start->path, 0, 2 /* STATX_MODE */, &status) || status.mode & 06000)
			return NOT_FOLLOWED;
		return n > 19 && begins_with(line, "\177ELF\2") && line[18] == (is_x86 ? 62 : (char)183) && !line[19] ?
			FOLLOWED : NOT_FOLLOWED;
	}
	return NOT_FOLLOWED;
}

static size_t number_of(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Splits an environment in two. What would change QEMU itself, if its linker read it, is told as options; the rest is
 * QEMU's environment, too. Returns how many words the options are. */
static size_t split_environment(char *const *environment, char **options, char **rest)
{
	static char preload[PATH_BYTES + 16], mark[256];
	const char *own_mark = getenv("KNEE_STARTED_BY");
	size_t used = 0;

	for (; environment && *environment; environment++) {
		const char *comma = *environment;

		while (*comma && *comma != ',')
			comma++;
		/* QEMU splits such options at commas. */
		if (begins_with(*environment, "LD_") && !*comma) {
			options[used++] = "-E";
			options[used++] = *environment;
		} else if (!begins_with(*environment, "LD_PRELOAD=")) {
			*rest++ = *environment;
		}
	}
	copy(preload, "LD_PRELOAD=", sizeof(preload));
	copy(preload + length(preload), head->plugin, PATH_BYTES);
	*rest++ = preload;
	if (own_mark) {
		copy(mark, "KNEE_STARTED_BY=", sizeof(mark));
		copy(mark + length(mark), own_mark, sizeof(mark) - length(mark));
		*rest++ = mark;
	}
	*rest = NULL;
	return used;
}

/* Starts QEMU on the program. Returns only if that fails. */
static void follow(const struct start *start, char *const *arguments, char *const *environment)
{
	size_t n = number_of(arguments), bytes = (n + 3 * number_of(environment) + 64) * sizeof(char *), k = 0;
	char **words = mmap(NULL, 2 * bytes, 3, 0x22 /* MAP_PRIVATE | MAP_ANONYMOUS */, -1, 0), **rest;
	const char *fixed[] = { head->qemu, "-seed", "1", "-U", "LD_PRELOAD", "-U", "KNEE_STARTED_BY", "-plugin",
				head->plugin_argument, "-0", start->arguments[start->first] };

	if (words == (void *)-1)
		return;
	rest = words + bytes / sizeof(char *);
	for (; k < sizeof(fixed) / sizeof(fixed[0]); k++)
		words[k] = (char *)fixed[k];
	k += split_environment(environment, words + k, rest);
	words[k++] = "--";
	words[k++] = (char *)start->path;
	for (size_t given = start->first + 1; given < ARGUMENTS; given++)
		words[k++] = (char *)start->arguments[given];
	for (size_t given = 1; given < n; given++)
		words[k++] = arguments[given];
	execve(head->qemu, words, rest);
	munmap(words, 2 * bytes);
}

/* The program asks for another in its place, which is not counted, unless that fails. */
static void not_followed(const char *path)
{
	starting = 1 + __atomic_fetch_add(&head->uncounted, 1, __ATOMIC_RELAXED);
	if (starting <= UNCOUNTED)
		copy(head->uncounted_paths[starting - 1], path, PATH_BYTES);
}

static void on_execve(const char *path, char *const *arguments, char *const *environment)
{
	struct start start = { .path = path, .first = ARGUMENTS - 1 };
	enum kind kind;

	if (is_equal(path, "/proc/self/exe") && qemu_plugin_path_to_binary)
		start.path = qemu_plugin_path_to_binary();
	start.arguments[start.first] = arguments && arguments[0] ? arguments[0] : "";
	kind = resolve(&start);
	if (kind == FAILS)
		return;
	if (kind == FOLLOWED && !access(head->plugin, 4) && !access(head->qemu, 1))
		follow(&start, arguments, environment);
	not_followed(path);
}

/* A pointer of the program. */
static void *in_guest(uint64_t address)
{
	return address ? (void *)(address + guest_base) : NULL;
}

static void on_call(plugin_id id, unsigned cpu, int64_t number, uint64_t first, uint64_t second, uint64_t third,
		    uint64_t fourth, uint64_t fifth, uint64_t sixth, uint64_t seventh, uint64_t eighth)
{
	(void)id, (void)cpu, (void)sixth, (void)seventh, (void)eighth;
	count(&head->system_calls[number >= 0 && number < SYSTEM_CALLS ? number : SYSTEM_CALLS - 1]);
	if (number == calls->clone || number == calls->fork || number == calls->vfork || number == calls->clone3)
		head->is_parallel = 1;
	else if (number == calls->mmap && third & 4 /* PROT_EXEC */)
		__atomic_store_n(&is_stale, 1, __ATOMIC_RELAXED);
	else if (number == calls->execve && first)
		on_execve(in_guest(first), in_guest(second), in_guest(third));
	else if (number == calls->execveat && second && (int)first == -100 /* AT_FDCWD */ && !fifth)
		on_execve(in_guest(second), in_guest(third), in_guest(fourth));
	else if (number == calls->execveat)
		not_followed(second && *(char *)in_guest(second) ? in_guest(second) : "an open file");
}

static void on_return(plugin_id id, unsigned cpu, int64_t number, int64_t result)
{
	(void)id, (void)cpu, (void)result;
	/* It failed. */
	if ((number == calls->execve || number == calls->execveat) && starting) {
		if (starting <= UNCOUNTED)
			head->uncounted_paths[starting - 1][0] = 0;
		__atomic_fetch_sub(&head->uncounted, 1, __ATOMIC_RELAXED);
		starting = 0;
	}
}

/* The argument is memory=PATH, a file that knee has sized and whose head it has filled. */
EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int n, char **arguments)
{
	static const char key[] = "memory=";
	struct head *small;
	int file;

	if (n != 1 || info->is_system || !begins_with(arguments[0], key))
		return 1;
	file = open(arguments[0] + sizeof(key) - 1, 0x80002 /* O_RDWR | O_CLOEXEC */);
	small = file >= 0 ? mmap(NULL, 4096, 1, 1, file, 0) : (void *)-1;
	if (small == (void *)-1)
		return 1;
	head = mmap(NULL, small->bytes, 3, 1 /* MAP_SHARED */, file, 0);
	munmap(small, 4096);
	close(file);
	if (head == (void *)-1)
		return 1;
	table = (struct slot *)(head + 1);
	is_x86 = begins_with(info->target, "x86");
	calls = is_x86 ? &x86_calls : &arm_calls;
	__atomic_fetch_add(&head->installed, 1, __ATOMIC_RELAXED);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_vcpu_syscall_cb(id, on_call);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
	return 0;
}
