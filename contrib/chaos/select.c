/*
 * select(2), past libfaketime's: while a process is in there, libfaketime shows it the true time. The postmaster of
 * PostgreSQL 15 starts processes in a signal handler that interrupts select, and these would see the true time forever.
 */
#define _GNU_SOURCE
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int
select(int end, fd_set *readable, fd_set *writable, fd_set *exceptional, struct timeval *timeout)
{
	struct timespec time;

	if (timeout)
		time = (struct timespec) {timeout->tv_sec, timeout->tv_usec * 1000};
	return syscall(SYS_pselect6, end, readable, writable, exceptional, timeout ? &time : NULL, NULL);
}
