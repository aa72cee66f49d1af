/* Steps the wall clock of one process: adds the nanoseconds in the file $CLOCK_STEP_FILE to CLOCK_REALTIME.
 *
 * Preloaded into a pool's server by tests/histories. Monotonic and boot clocks stay true, as they do on a machine
 * whose wall clock is set.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;

__attribute__((constructor)) static void map_step(void)
{
	const char *path = getenv("CLOCK_STEP_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *page = mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED)
		step = page;
	close(fd);
}

static int is_wall(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	if (syscall(SYS_clock_gettime, clock, out))
		return -1;
	if (step && is_wall(clock)) {
		int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + *step;
		out->tv_sec = ns / 1000000000;
		out->tv_nsec = ns % 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	(void)zone;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
