/* Logs what a process writes to store.db and store.db-wal and when it syncs them, in order.
 *
 * Loaded by LD_PRELOAD; the log is the file named by WRITES_LOG. Each entry is an operation
 * (W write, T truncate, S sync), a file (d database, w log), offset, length, and what was written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FILES 4096
#define REAL(name, type) \
  static __typeof__(type) real; \
  if (!real) real = (__typeof__(type))dlsym(RTLD_NEXT, name)

static char watched[MOST_FILES];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static int log_file(void) {
  static int file = -1;
  if (file < 0) {
    REAL("open64", int (*)(const char *, int, ...));
    file = real(getenv("WRITES_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  return file;
}

static void note(char operation, int fd, uint64_t offset, uint64_t length, const void *data) {
  if (fd < 0 || fd >= MOST_FILES || !watched[fd]) return;
  char head[18] = {operation, watched[fd]};
  memcpy(head + 2, &offset, 8);
  memcpy(head + 10, &length, 8);
  struct iovec parts[2] = {{head, sizeof head}, {(void *)data, length}};
  pthread_mutex_lock(&guard);
  if (writev(log_file(), parts, data ? 2 : 1) < 0) abort();
  pthread_mutex_unlock(&guard);
}

static int opened(int fd, const char *path) {
  if (fd < 0 || fd >= MOST_FILES) return fd;
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  watched[fd] = !strcmp(name, "store.db") ? 'd' : !strcmp(name, "store.db-wal") ? 'w' : 0;
  return fd;
}

#define OPEN(function) \
  int function(const char *path, int flags, ...) { \
    REAL(#function, int (*)(const char *, int, ...)); \
    va_list rest; \
    va_start(rest, flags); \
    int mode = va_arg(rest, int); \
    va_end(rest); \
    return opened(real(path, flags, mode), path); \
  }
OPEN(open)
OPEN(open64)

#define WRITE(function) \
  ssize_t function(int fd, const void *data, size_t size, off_t offset) { \
    REAL(#function, ssize_t (*)(int, const void *, size_t, off_t)); \
    ssize_t written = real(fd, data, size, offset); \
    if (written > 0) note('W', fd, offset, written, data); \
    return written; \
  }
WRITE(pwrite)
WRITE(pwrite64)

#define TRUNCATE(function) \
  int function(int fd, off_t size) { \
    REAL(#function, int (*)(int, off_t)); \
    int failed = real(fd, size); \
    if (!failed) note('T', fd, size, 0, NULL); \
    return failed; \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(function) \
  int function(int fd) { \
    REAL(#function, int (*)(int)); \
    int failed = real(fd); \
    if (!failed) note('S', fd, 0, 0, NULL); \
    return failed; \
  }
SYNC(fsync)
SYNC(fdatasync)
