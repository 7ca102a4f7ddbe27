/*
 * The native look: which of many directories are exactly as their records say?
 *
 * `scan/look.py` asks the same question in Python, and tests compare the answers; `safefs/native.py` calls this.
 * Plain C99 with POSIX threads, without Python's headers. It opens directories one below the other, never through a
 * link, for reading; it changes nothing, keeps nothing, and believes no length that a record claims.
 *
 * A record is what `scan/cache.py` encodes: a head of 103 bytes (HEAD), names joined by NUL, directories, what was missed,
 * 40 bytes of stat fields (STAT) and 20 of an object id for each name. Numbers are little-endian.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_SIZE 103
#define STAT_SIZE 40
#define OID_SIZE 20
#define DEEPEST 40
#define TASK 32
#define MOST_THREADS 8
#define FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct job {
    int root;
    uint32_t count;
    const char *const *paths;
    const unsigned char *const *records;
    const uint32_t *sizes;
    unsigned char *same;
    dev_t device;
    uint32_t next;
    int again; /* the second look: at the directories alone */
    int threads;
    pthread_t thread[MOST_THREADS];
};

struct open_directory {
    size_t length; /* of its path with a slash behind it */
    int fd;
};

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | at[bytes];
    return value;
}

/* Nanoseconds since the epoch; 0 where they have no room in 64 bits, since nothing is remembered of such a time. */
static int in_ns(struct timespec time, int64_t *ns) {
    return !__builtin_mul_overflow((int64_t)time.tv_sec, (int64_t)1000000000, ns) &&
           !__builtin_add_overflow(*ns, (int64_t)time.tv_nsec, ns);
}

static int same_times(const struct stat *st, const unsigned char *mtime, const unsigned char *ctime) {
    int64_t modified, changed;
    return in_ns(st->st_mtim, &modified) && in_ns(st->st_ctim, &changed) &&
           modified == (int64_t)number(mtime, 8) && changed == (int64_t)number(ctime, 8);
}

static int same_directory(const struct stat *st, const unsigned char *record) {
    return (uint64_t)st->st_ino == number(record, 8) && same_times(st, record + 8, record + 16);
}

static int same_entry(const struct stat *st, const unsigned char *want) {
    return (uint64_t)st->st_ino == number(want, 8) && (uint64_t)st->st_mode == number(want + 8, 8) &&
           (int64_t)st->st_size == (int64_t)number(want + 16, 8) && same_times(st, want + 24, want + 32);
}

static int same_names(int fd, const unsigned char *record, uint32_t size) {
    uint64_t names = number(record + 83, 4), dirs = number(record + 87, 4), missed = number(record + 91, 4);
    uint64_t count = number(record + 95, 4);
    if (HEAD_SIZE + names + dirs + missed + count * (STAT_SIZE + OID_SIZE) != size)
        return 0;
    if (!count)
        return !names;
    const unsigned char *want = record + HEAD_SIZE + names + dirs + missed;
    const char *name = (const char *)record + HEAD_SIZE, *end = name + names;
    for (uint64_t at = 0; at < count; at++, want += STAT_SIZE) {
        const char *stop = memchr(name, 0, (size_t)(end - name));
        size_t length = (size_t)((stop ? stop : end) - name);
        char last[256];
        struct stat st;
        if (!length || length >= sizeof last || !stop != (at == count - 1))
            return 0;
        if (!stop) { /* what follows the last name is not a NUL */
            memcpy(last, name, length);
            last[length] = 0;
            name = last;
        }
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) || !same_entry(&st, want))
            return 0;
        if (stop)
            name = stop + 1;
    }
    return 1;
}

/* Opens a directory by what is open already; -1 where that cannot be. */
static int descend(int root, const char *path, struct open_directory *above, int *depth) {
    size_t known = *depth ? above[*depth - 1].length : 0;
    int here = *depth ? above[*depth - 1].fd : root;
    while (path[0] && known <= strlen(path)) {
        const char *name = path + known, *slash = strchr(name, '/');
        size_t length = slash ? (size_t)(slash - name) : strlen(name);
        char one[256];
        if (!length || length >= sizeof one || *depth >= DEEPEST)
            return -1;
        memcpy(one, name, length);
        one[length] = 0;
        here = openat(here, one, FLAGS);
        if (here < 0)
            return -1;
        known += length + 1;
        above[*depth].length = known;
        above[(*depth)++].fd = here;
        if (!slash)
            break;
    }
    return here;
}

static int is_below(const char *path, const char *before, size_t length) {
    /* `before` was opened with the path of an earlier directory; its name and a slash must begin this one. */
    return strlen(path) > length - 1 && !memcmp(path, before, length - 1) && path[length - 1] == '/';
}

static void look(struct job *job, uint32_t from, uint32_t to) {
    struct open_directory above[DEEPEST];
    int depth = 0;
    const char *before = "";
    for (uint32_t at = from; at < to; at++) {
        const char *path = job->paths[at];
        const unsigned char *record = job->records[at];
        struct stat st;
        while (depth && !is_below(path, before, above[depth - 1].length))
            close(above[--depth].fd);
        int fd = descend(job->root, path, above, &depth);
        /* What is open now was opened by this path, whole or in part: it is what the next one is compared with. */
        before = path;
        job->same[at] = fd >= 0 && job->sizes[at] >= HEAD_SIZE && !fstat(fd, &st) && st.st_dev == job->device &&
                        (st.st_mode & 07777) == number(record + 80, 2) && same_directory(&st, record) &&
                        same_names(fd, record, job->sizes[at]);
    }
    while (depth)
        close(above[--depth].fd);
}

static void look_again(struct job *job, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at < to; at++) {
        struct stat st;
        /* Too deep for one path, or gone: its parent tells. */
        job->same[at] = job->sizes[at] < HEAD_SIZE ||
                        fstatat(job->root, job->paths[at][0] ? job->paths[at] : ".", &st, AT_SYMLINK_NOFOLLOW) ||
                        same_directory(&st, job->records[at]);
    }
}

static void *work(void *given) {
    struct job *job = given;
    for (;;) {
        uint32_t from = __atomic_fetch_add(&job->next, TASK, __ATOMIC_RELAXED);
        if (from >= job->count)
            return NULL;
        uint32_t to = job->count - from < TASK ? job->count : from + TASK;
        (job->again ? look_again : look)(job, from, to);
    }
}

static int start_threads(pthread_t *thread, int wanted, void *(*task)(void *), void *given) {
    int begun = 0;
    /* Signals are for the caller's own thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (begun < wanted && begun < MOST_THREADS && !pthread_create(&thread[begun], NULL, task, given))
        begun++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return begun;
}

/* Begins to look, in as many threads beside the caller's; returns what `mulligan_end` needs, NULL when it cannot. */
void *mulligan_begin(int root, uint32_t count, const char *const *paths, const unsigned char *const *records,
                     const uint32_t *sizes, unsigned char *same, int again, int threads) {
    struct stat st;
    struct job *job = calloc(1, sizeof *job);
    if (!job || fstat(root, &st)) {
        free(job);
        return NULL;
    }
    job->root = root, job->count = count, job->paths = paths, job->records = records, job->sizes = sizes;
    job->same = same, job->device = st.st_dev, job->again = again;
    job->threads = start_threads(job->thread, threads, work, job);
    return job;
}

/* Looks at what is left, and returns when all is done. */
void mulligan_end(void *given) {
    struct job *job = given;
    work(job);
    while (job->threads)
        pthread_join(job->thread[--job->threads], NULL);
    free(job);
}
