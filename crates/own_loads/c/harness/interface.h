/* What a load may call: knee.h's functions, and those of will-it-scale.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

static void die_with(pid_t process)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != process)
		_exit(1);
}

/* will-it-scale's: starts a helper of the calling task, as a process or a thread like the task. */
void new_task(void *(*function)(void *), void *argument)
{
	pid_t caller = getpid(), helper;
	pthread_t thread;

	if (args.run.threads) {
		errno = start_thread(&thread, function, argument);
		if (errno) {
			perror("new_task: pthread_create");
			exit(1);
		}
		return;
	}
	helper = fork();
	if (helper < 0) {
		perror("new_task: fork");
		exit(1);
	}
	if (helper == 0) {
		self = NULL;
		signal(SIGTERM, SIG_DFL);
		die_with(caller);
		function(argument);
		_exit(0);
	}
	if (self && self->n_helpers < HELPERS_MAX)
		self->helpers[self->n_helpers++] = helper;
}

/* will-it-scale's own main program calls it with a struct of its own; no test of the suite does. */
void new_task_affinity(void *arguments)
{
	(void)arguments;
	fprintf(stderr, "new_task_affinity() starts the tasks themselves, which knee does: call new_task()\n");
	exit(1);
}

const char *knee_value(const char *name)
{
	size_t length = strlen(name);
	const struct knee_parameter *parameter = knee_parameters;

	for (char **value = args.values; *value; value++)
		if (!strncmp(*value, name, length) && (*value)[length] == '=')
			return *value + length + 1;
	for (; parameter && parameter->name; parameter++)
		if (!strcmp(parameter->name, name))
			return parameter->value;
	fprintf(stderr, "knee_parameters has no '%s'\n", name);
	exit(1);
}

unsigned long long knee_number(const char *name)
{
	const char *value = knee_value(name), *suffix = "kMG", *found;
	char *end;
	unsigned long long number = strtoull(value, &end, 10);

	if (end != value && *end && (found = strchr(suffix, *end == 'K' ? 'k' : *end))) {
		number <<= 10 * (found - suffix + 1);
		end++;
	}
	if (end == value || *end) {
		fprintf(stderr, "%s=%s is no number\n", name, value);
		exit(1);
	}
	return number;
}
