/* A task's report: one line of JSON, made without the C library, which may be in any state.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

struct text {
	char *at, *end;
};

static void put(struct text *text, const char *words)
{
	while (*words && text->at < text->end)
		*text->at++ = *words++;
}

static void put_number(struct text *text, uint64_t number)
{
	char digits[24], *digit = digits + sizeof(digits) - 1;

	*digit = 0;
	do
		*--digit = (char)('0' + number % 10);
	while (number /= 10);
	put(text, digit);
}

static void put_field(struct text *text, const char *name, uint64_t number)
{
	put(text, ",\"");
	put(text, name);
	put(text, "\":");
	put_number(text, number);
}

/* What is no printable ASCII becomes a question mark. */
static void put_quoted(struct text *text, const char *words)
{
	put(text, "\"");
	for (; *words && text->at + 2 < text->end; words++) {
		if (*words == '"' || *words == '\\')
			*text->at++ = '\\';
		*text->at++ = *words >= ' ' && *words < 127 ? *words : '?';
	}
	put(text, "\"");
}

static uint64_t us(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void put_usage(struct text *text, const struct rusage *before, const struct rusage *after)
{
	put(text, ",\"usage\":{\"user_us\":");
	put_number(text, us(after->ru_utime) - us(before->ru_utime));
	put_field(text, "system_us", us(after->ru_stime) - us(before->ru_stime));
	put_field(text, "voluntary_switches", (uint64_t)(after->ru_nvcsw - before->ru_nvcsw));
	put_field(text, "involuntary_switches", (uint64_t)(after->ru_nivcsw - before->ru_nivcsw));
	put_field(text, "minor_faults", (uint64_t)(after->ru_minflt - before->ru_minflt));
	put_field(text, "major_faults", (uint64_t)(after->ru_majflt - before->ru_majflt));
	put_field(text, "max_rss_kib", (uint64_t)after->ru_maxrss);
	put_field(text, "block_inputs", (uint64_t)(after->ru_inblock - before->ru_inblock));
	put_field(text, "block_outputs", (uint64_t)(after->ru_oublock - before->ru_oublock));
	put(text, "}");
}

/* The largest duration in a bucket. */
static uint64_t bucket_ns(unsigned bucket)
{
	unsigned shift = bucket >> DIGIT_BITS;
	uint64_t digits = bucket & ((1u << DIGIT_BITS) - 1);

	if (shift == 0)
		return digits;
	return (((1ull << DIGIT_BITS) + digits + 1) << (shift - 1)) - 1;
}

static void count_duration(struct task *task, uint64_t ns)
{
	unsigned shift = ns < 1u << DIGIT_BITS ? 0 : 64 - DIGIT_BITS - (unsigned)__builtin_clzll(ns);
	uint64_t digits = shift == 0 ? ns : (ns >> (shift - 1)) & ((1u << DIGIT_BITS) - 1);

	task->buckets[(shift << DIGIT_BITS) + digits]++;
}

static void put_durations(struct text *text, const struct task *task)
{
	const char *comma = ",\"durations\":[[";

	for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
		if (!task->buckets[bucket])
			continue;
		put(text, comma);
		put_number(text, bucket_ns(bucket));
		put(text, ",");
		put_number(text, task->buckets[bucket]);
		put(text, "]");
		comma = ",[";
	}
	put(text, comma[1] == '[' ? "]" : "");
}

/* One write: appends of several processes do not mix. */
static void write_report(struct task *task, char *buffer, size_t bytes)
{
	struct text text = { buffer, buffer + bytes - 1 };
	ssize_t written;

	put(&text, "{\"task\":");
	put_number(&text, task->index);
	put_field(&text, "cpu", task->cpu);
	put_field(&text, "operations", task->operations);
	put_field(&text, "start_ns", task->start_ns);
	put_field(&text, "stop_ns", task->stop_ns);
	put_usage(&text, &task->usage_at_start, &task->usage);
	if (task->buckets)
		put_durations(&text, task);
	if (task->failure[0]) {
		put(&text, ",\"failure\":");
		put_quoted(&text, task->failure);
	}
	put(&text, "}");
	*text.at++ = '\n';
	written = write(args.reports, buffer, (size_t)(text.at - buffer));
	if (task->failure[0] || written != text.at - buffer)
		fail_run();
}

/* Reports that a task could not be or stay one. */
static void report_failure(struct task *task)
{
	char buffer[2 * MESSAGE_BYTES + 1024];

	write_report(task, buffer, sizeof(buffer));
}

int knee_fail(const char *format, ...)
{
	static __thread char unowned[MESSAGE_BYTES];
	char *message = self ? self->failure : unowned;
	int error = errno;
	va_list more;

	va_start(more, format);
	vsnprintf(message, MESSAGE_BYTES, format, more);
	va_end(more);
	if (error) {
		size_t length = strlen(message);

		snprintf(message + length, MESSAGE_BYTES - length, ": %s", strerror(error));
	}
	if (!self)
		fprintf(stderr, "%s\n", message);
	/* So that the loop does not take it for an interrupted call. */
	errno = 0;
	return -1;
}

/* Keeps what knee_fail said, or says which function failed. */
static void name_failure(struct task *task, const char *function)
{
	int error = errno;

	if (task->failure[0])
		return;
	snprintf(task->failure, MESSAGE_BYTES, "%s failed%s%s", function, error ? ": " : "",
		 error ? strerror(error) : "; knee_fail() can say why");
}
