/*
 * The load: sends one request per connection and the next as soon as it is answered, or after a pause.
 * Arguments: unix PATH or tcp PORT, connections, pause in microseconds.
 * Prints the number of answers so far and the time, ten times a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64

static struct pollfd connections[CONNECTIONS_MAX];
/* When the next request is due; 0 while one is under way. */
static double due_s[CONNECTIONS_MAX];
static unsigned long long answers;

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(int is_fine, const char *what)
{
	if (!is_fine) {
		perror(what);
		exit(1);
	}
}

static int connected(const char *family, const char *place)
{
	int is_unix = strcmp(family, "unix") == 0, one = 1;
	int socket_ = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in net = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(place)) };
	net.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	strncpy(local.sun_path, place, sizeof(local.sun_path) - 1);
	if (is_unix) {
		check(connect(socket_, (struct sockaddr *)&local, sizeof(local)) == 0, "connect");
	} else {
		check(connect(socket_, (struct sockaddr *)&net, sizeof(net)) == 0, "connect");
		setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	return socket_;
}

static void ask(int number)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "get %llu\n", answers * 2654435761 % 1000000007);
	check(write(connections[number].fd, line, (size_t)length) == length, "write");
	due_s[number] = 0;
}

static void take_answer(int number, double pause_s)
{
	char line[64];
	ssize_t got = read(connections[number].fd, line, sizeof(line));
	check(got > 0, "read");
	if (line[got - 1] != '\n')
		return;
	answers++;
	if (pause_s == 0)
		ask(number);
	else
		due_s[number] = now_s() + pause_s * (0.5 + drand48());
}

int main(int count, char **arguments)
{
	check(count == 5, "arguments");
	int number_of = atoi(arguments[3]);
	double pause_s = atof(arguments[4]) / 1e6, report_s = 0;
	check(number_of <= CONNECTIONS_MAX, "too many connections");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int number = 0; number < number_of; number++) {
		connections[number] = (struct pollfd){ connected(arguments[1], arguments[2]), POLLIN, 0 };
		due_s[number] = 1e-9;
	}
	for (;;) {
		double now = now_s(), next = now + 0.05;
		for (int number = 0; number < number_of; number++) {
			if (due_s[number] > 0 && due_s[number] <= now)
				ask(number);
			else if (due_s[number] > 0 && due_s[number] < next)
				next = due_s[number];
		}
		poll(connections, (nfds_t)number_of, 1 + (int)((next - now) * 1e3));
		for (int number = 0; number < number_of; number++)
			if (connections[number].revents)
				take_answer(number, pause_s);
		if ((now = now_s()) >= report_s) {
			printf("done %llu %.6f\n", answers, now);
			report_s = now + 0.1;
		}
	}
}
