/* Loaded before libc: shifts the wall clock of a process by the seconds that a file holds, which may change at any time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* shift;

__attribute__((constructor)) static void open_shift(void) {
  const char* path = getenv("CLOCK_SHIFT_FILE");
  if (path == NULL) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) shift = mapped;
}

static int64_t seconds(void) { return shift == NULL ? 0 : *shift; }

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds();
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  static int (*real)(struct timeval*, void*);
  if (real == NULL) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(now, zone);
  if (result == 0) now->tv_sec += seconds();
  return result;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}

/*
 * The kernel's clock is not shifted, so a deadline by the shifted clock is shifted back. Otherwise, with the clock set
 * back, each wait would end at once, and threads would wait in a busy loop.
 */
int pthread_cond_timedwait(
    pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, const struct timespec* restrict deadline) {
  static int (*real)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  if (real == NULL) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (real == NULL) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec shifted = *deadline;
  /* A deadline by the monotonic clock is a small number. */
  if (shifted.tv_sec > 1000000000) shifted.tv_sec -= seconds();
  return real(condition, mutex, &shifted);
}
