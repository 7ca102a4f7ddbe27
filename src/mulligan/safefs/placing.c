/*
 * The plain files of a restore, many in one call: staging, the last look, putting in place.
 *
 * What is staged is given, or read from a pack of the store, inflated and compared with its id first; an object that is not as
 * plain as that, or not right, is Python's: it knows of other copies, and says what is damaged.
 * For each file the same steps in the same order as `restore/staging.py` and `restore/executor.py` take, with the same calls:
 * whoever kills the process between any two of them leaves what Python would have left. Directories are given open (-1 is
 * one that could not be), names are single ones; no link is followed, and nothing hangs on a FIFO. Whatever is not as it
 * should be ends the work on that file, and Python, which is told how far it came, goes on from there: it decides, puts
 * back and reports. Nothing is undone here.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/xattr.h>
#endif

#define NO_REPLACE 1
#define EXCHANGE 2
#define READ_PLAIN (O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
#define CREATE_PLAIN (O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

#define WORTH_A_THREAD 32
#define PLACE_TASK 8

enum { SWAP, PUT, REMOVE };
/* How far a file came: nothing changed; old and new changed places; the old one is gone; read back and right. */
enum { UNTOUCHED, MOVED, THROWN, PLACED };

/* What Python packs for each file that is to be put in place. */
struct placing {
    unsigned char before[STAT_SIZE]; /* what stands there; for PUT, nothing */
    unsigned char before_oid[OID_SIZE], after_oid[OID_SIZE];
    uint32_t mode;
    uint8_t kind, unused[3];
};

static int rename_with(int from, const char *name, int to, const char *other, unsigned flags) {
#if defined(SYS_renameat2)
    return (int)syscall(SYS_renameat2, from, name, to, other, flags);
#else
    (void)from, (void)name, (void)to, (void)other, (void)flags;
    errno = ENOSYS;
    return -1;
#endif
}

/* -- staging -- */

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define LISTXATTRAT 465 /* since Linux 6.13; headers are older than kernels, mostly */
#endif

/* How many bytes the names of a file's extended attributes have, asked in an open directory. */
static ssize_t attributes_of(int directory, const char *name, const char *path) {
#if defined(__linux__)
#if defined(LISTXATTRAT)
    static int missing;
    if (!__atomic_load_n(&missing, __ATOMIC_RELAXED)) {
        ssize_t names = syscall(LISTXATTRAT, directory, name, AT_SYMLINK_NOFOLLOW, NULL, (size_t)0);
        if (names >= 0 || (errno != ENOSYS && errno != EPERM))
            return names;
        __atomic_store_n(&missing, 1, __ATOMIC_RELAXED); /* not known here, or forbidden: the older way takes 3 us more */
    }
#endif
    (void)directory, (void)name;
    return llistxattr(path, NULL, 0);
#else
    (void)directory, (void)name, (void)path;
    errno = ENOSYS;
    return -1;
#endif
}

/* Whether a name is a regular file that has no extended attributes: nothing but its owner is to be taken over. */
static int is_bare(int directory, const char *name, struct stat *st) {
#if defined(__linux__)
    char path[300];
    if (snprintf(path, sizeof path, "/proc/self/fd/%d/%s", directory, name) >= (int)sizeof path)
        return 0;
    if (fstatat(directory, name, st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st->st_mode))
        return 0;
    ssize_t names = attributes_of(directory, name, path);
    return !names || (names < 0 && errno == EOPNOTSUPP);
#else
    (void)directory, (void)name, (void)st;
    return 0;
#endif
}

static int write_whole(int fd, const unsigned char *data, uint64_t size) {
    while (size) {
        ssize_t part = write(fd, data, size);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return 0;
        data += part, size -= (uint64_t)part;
    }
    return 1;
}

/* An object of the store that is a file's content: where its record lies, and behind which place of the pack nothing counts. */
struct origin {
    uint64_t offset, end, size;
    unsigned char oid[OID_SIZE];
    int32_t pack; /* -1: the content is given */
};

/* No more is read for a file of so many bytes: what takes more than this was not made to be small. */
#define DEFLATED_MOST(size) ((size) + (size) / 8 + 64)
#define LONGEST_HEADER 10

/* What is needed to get at contents. */
struct unpacker {
    int quick;
    struct inflater inflater;
    unsigned char record[LONGEST_HEADER + DEFLATED_MOST(LARGEST)], content[LARGEST + INFLATE_SLACK];
};

static size_t read_some(int fd, unsigned char *to, size_t size, uint64_t at) {
    size_t done = 0;
    while (done < size) {
        ssize_t part = pread(fd, to + done, size - done, (off_t)(at + done));
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            break;
        done += (size_t)part;
    }
    return done;
}

/* The length of a record's header, if it is a whole blob of moderate size, which is told; else 0. */
static size_t blob_header(const unsigned char *record, size_t given, uint64_t *size) {
    size_t at = 0;
    int shift = 4;
    if (!given || (record[0] >> 4 & 7) != 3)
        return 0;
    *size = record[0] & 15;
    while (record[at++] & 128) {
        if (at == given || at == LONGEST_HEADER)
            return 0;
        *size |= (uint64_t)(record[at] & 127) << shift;
        shift += 7;
    }
    return *size <= LARGEST ? at : 0;
}

/* Reads an object, inflates it and compares its id; returns whether its bytes are there, and right. */
static int unpack(struct unpacker *self, const struct origin *from) {
    uint64_t most = LONGEST_HEADER + DEFLATED_MOST(from->size), size;
    unsigned char found[OID_SIZE];
    char named[32];
    if (from->size > LARGEST || from->offset >= from->end)
        return 0;
    size_t there = read_some(from->pack, self->record, (size_t)(from->end - from->offset < most ? from->end - from->offset : most), from->offset);
    size_t header = blob_header(self->record, there, &size);
    if (!header || size != from->size || !inflate(&self->inflater, self->record + header, there - header, self->content, (size_t)size))
        return 0;
    int named_size = snprintf(named, sizeof named, "blob %llu", (unsigned long long)size) + 1;
    sha1_of((const unsigned char *)named, (size_t)named_size, self->content, (size_t)size, found, self->quick);
    return !memcmp(found, from->oid, OID_SIZE);
}

/* Tells the size of each object that is a whole blob of moderate size; of any other UINT64_MAX. */
void mulligan_sizes(uint32_t count, const struct origin *origins, uint64_t *sizes) {
    for (uint32_t at = 0; at < count; at++) {
        const struct origin *from = &origins[at];
        unsigned char record[LONGEST_HEADER];
        uint64_t left = from->offset < from->end ? from->end - from->offset : 0;
        size_t there = read_some(from->pack, record, left < sizeof record ? (size_t)left : sizeof record, from->offset);
        if (!blob_header(record, there, &sizes[at]))
            sizes[at] = UINT64_MAX;
    }
}

/* Returns the inode of a new file; 0, and perhaps a part of the file, where it is left to Python. */
static uint64_t stage_one(struct unpacker *self, int directory, const char *temporary, const char *replaced,
                          mode_t mode, const unsigned char *data, const struct origin *from) {
    struct stat old, made;
    if (replaced && !is_bare(directory, replaced, &old))
        return 0;
    if (from->pack >= 0) {
        if (!self || !unpack(self, from))
            return 0;
        data = self->content;
    }
    int fd = openat(directory, temporary, CREATE_PLAIN, mode);
    if (fd < 0)
        return 0;
    int whole = !fstat(fd, &made) && (!replaced || (made.st_uid == old.st_uid && made.st_gid == old.st_gid)) &&
                ((made.st_mode & 07777) == mode || !fchmod(fd, mode)) && write_whole(fd, data, from->size);
    close(fd);
    return whole ? (uint64_t)made.st_ino : 0;
}

/* Files that are staged in the background, one batch after the other. */
struct staging {
    struct staging *before; /* the batch that is worked at first */
    uint32_t count;
    int *directories; /* copies: whoever has them open may close his own */
    const char *const *temporaries, *const *replaced;
    const uint32_t *modes;
    const unsigned char *const *contents;
    const struct origin *origins;
    uint64_t *inodes;
    int done;
    pthread_t thread;
};

/* Files of one directory follow one another: they have one copy of it. */
static int is_first_in(const int *directories, uint32_t at) {
    return !at || directories[at] != directories[at - 1];
}

static void drop_staging(struct staging *batch) {
    if (batch)
        free(batch->directories);
    free(batch);
}

static void *stage_batch(void *given) {
    struct staging *batch = given;
    if (batch->before)
        pthread_join(batch->before->thread, NULL);
    struct unpacker *self = malloc(sizeof *self);
    if (self)
        self->quick = HAS_SHA_NI && has_sha_ni(), self->inflater.literals = 0;
    for (uint32_t at = 0; at < batch->count; at++)
        batch->inodes[at] = batch->directories[at] < 0
                                ? 0
                                : stage_one(self, batch->directories[at], batch->temporaries[at], batch->replaced[at],
                                            (mode_t)batch->modes[at], batch->contents[at], &batch->origins[at]);
    free(self);
    for (uint32_t at = 0; at < batch->count; at++)
        if (batch->directories[at] >= 0 && is_first_in(batch->directories, at))
            close(batch->directories[at]);
    __atomic_store_n(&batch->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/*
 * Begins to stage files behind those of an earlier batch (NULL for none); `replaced` names, in the same directory, what each
 * takes its owner over from, or is NULL. All that is given stays where it is until `mulligan_stage_end`, the packs open too, but
 * for the open directories. Returns what the next two need, NULL when it cannot.
 */
void *mulligan_stage(void *before, uint32_t count, const int *directories, const char *const *temporaries,
                     const char *const *replaced, const uint32_t *modes, const unsigned char *const *contents,
                     const struct origin *origins, uint64_t *inodes) {
    struct staging *batch = calloc(1, sizeof *batch);
    if (batch)
        batch->directories = calloc(count ? count : 1, sizeof(int));
    if (!batch || !batch->directories) {
        drop_staging(batch);
        return NULL;
    }
    for (uint32_t at = 0; at < count; at++)
        batch->directories[at] = !is_first_in(directories, at) ? batch->directories[at - 1]
                                 : directories[at] < 0         ? -1
                                                               : fcntl(directories[at], F_DUPFD_CLOEXEC, 3);
    batch->before = before, batch->count = count, batch->temporaries = temporaries, batch->replaced = replaced;
    batch->modes = modes, batch->contents = contents, batch->origins = origins, batch->inodes = inodes;
    if (start_threads(&batch->thread, 1, stage_batch, batch))
        return batch;
    for (uint32_t at = 0; at < count; at++)
        if (batch->directories[at] >= 0 && is_first_in(batch->directories, at))
            close(batch->directories[at]);
    drop_staging(batch);
    return NULL;
}

/* Returns when a batch is staged. */
void mulligan_stage_wait(void *given) {
    struct staging *batch = given;
    const struct timespec moment = {0, 50000};
    while (!__atomic_load_n(&batch->done, __ATOMIC_ACQUIRE))
        nanosleep(&moment, NULL);
}

/* Waits for the last batch and all before it, and lets them go. */
void mulligan_stage_end(void *last) {
    struct staging *batch = last;
    pthread_join(batch->thread, NULL);
    while (batch) {
        struct staging *before = batch->before;
        drop_staging(batch);
        batch = before;
    }
}

/* -- looking -- */

/* Opens directories below a root, each name by name and through no link; -1 for one that cannot be had. */
void mulligan_open(int root, uint32_t count, const char *const *paths, int *found) {
    struct open_directory above[DEEPEST];
    int depth = 0;
    const char *before = "";
    for (uint32_t at = 0; at < count; at++) {
        while (depth && !is_below(paths[at], before, above[depth - 1].length))
            close(above[--depth].fd);
        int fd = descend(root, paths[at], above, &depth);
        found[at] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        before = paths[at];
    }
    while (depth)
        close(above[--depth].fd);
}

static int is_as_before(int directory, const char *name, const unsigned char *before) {
    struct stat st;
    int failed = fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW);
    if (!number(before + 8, 8)) /* no mode at all: nothing stands there */
        return failed && errno == ENOENT;
    return !failed && same_entry(&st, before);
}

/* Says 1 of each name that is exactly as it was seen, 0 of any other. */
void mulligan_unchanged(uint32_t count, const int *directories, const char *const *names, const struct placing *wanted,
                        unsigned char *same) {
    for (uint32_t at = 0; at < count; at++)
        same[at] = directories[at] >= 0 && is_as_before(directories[at], names[at], wanted[at].before);
}

/* -- putting in place -- */

/* What one call needs to read with. */
struct comparer {
    int quick;
    unsigned char bytes[LARGEST + 8];
};

/* Whether a name is a regular file of this mode (and inode, unless that is 0) whose bytes hash to an id. */
static int holds(struct comparer *self, int directory, const char *name, uint64_t mode, uint64_t inode,
                 const unsigned char *oid) {
    struct stat st;
    char header[32];
    unsigned char found[OID_SIZE];
    int fd = openat(directory, name, READ_PLAIN);
    if (fd < 0)
        return 0;
    int whole = !fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_mode == mode &&
                (!inode || (uint64_t)st.st_ino == inode) && st.st_size <= LARGEST &&
                read_whole(fd, self->bytes, (size_t)st.st_size) == (size_t)st.st_size;
    close(fd);
    if (!whole)
        return 0;
    int header_size = snprintf(header, sizeof header, "blob %llu", (unsigned long long)st.st_size) + 1;
    sha1_of((const unsigned char *)header, (size_t)header_size, self->bytes, (size_t)st.st_size, found, self->quick);
    return !memcmp(found, oid, OID_SIZE);
}

/* Whether a displaced file is what was seen at its place, by its bytes: its times may have been put back, and its rename
 * changed the one that cannot be. */
static int is_displaced(struct comparer *self, int stage, const char *temporary, const struct placing *want) {
    return holds(self, stage, temporary, number(want->before + 8, 8), 0, want->before_oid);
}

static int move(const struct placing *want, int parent, const char *name, int stage, const char *temporary) {
    if (want->kind == REMOVE)
        return rename_with(parent, name, stage, temporary, NO_REPLACE);
    return rename_with(stage, temporary, parent, name, want->kind == PUT ? NO_REPLACE : EXCHANGE);
}

/* Files that are put in place by two threads, each from its first step to its last by one of them. */
struct work {
    uint32_t count;
    const int *directories, *stages;
    const char *const *names, *const *temporaries, *const *gone;
    const struct placing *wanted;
    const uint64_t *inodes;
    int trash;
    unsigned char *reached;
    uint32_t next;
    int ended; /* something is not as it should be: nothing more is begun */
};

/* Everything but the reading back. */
static int move_one(struct comparer *self, const struct work *job, uint32_t at) {
    const struct placing *want = &job->wanted[at];
    int parent = job->directories[at], stage = job->stages[at];
    const char *name = job->names[at], *temporary = job->temporaries[at];
    if (parent < 0 || stage < 0)
        return UNTOUCHED;
    if (!is_as_before(parent, name, want->before) || move(want, parent, name, stage, temporary))
        return UNTOUCHED;
    if (want->kind != PUT) {
        if (!is_displaced(self, stage, temporary, want))
            return MOVED;
        if (job->trash >= 0 ? renameat(stage, temporary, job->trash, job->gone[at]) : unlinkat(stage, temporary, 0))
            return MOVED;
    }
    return want->kind == REMOVE ? PLACED : THROWN;
}

/* Goes on with a file from where it stands; returns whether it is in place and right. */
static int place_one(struct comparer *self, const struct work *job, uint32_t at) {
    const struct placing *want = &job->wanted[at];
    unsigned char *reached = &job->reached[at];
    if (*reached == UNTOUCHED)
        *reached = (unsigned char)move_one(self, job, at);
    if (*reached == THROWN &&
        holds(self, job->directories[at], job->names[at], want->mode, job->inodes[at], want->after_oid))
        *reached = PLACED;
    return *reached == PLACED;
}

/* Takes a few files at a time, most of them in a directory that the other thread is not in. */
static void place_some(struct comparer *self, struct work *job) {
    uint32_t at, end;
    while (!__atomic_load_n(&job->ended, __ATOMIC_RELAXED) &&
           (at = __atomic_fetch_add(&job->next, PLACE_TASK, __ATOMIC_RELAXED)) < job->count)
        for (end = job->count - at < PLACE_TASK ? job->count : at + PLACE_TASK; at < end; at++)
            if (!place_one(self, job, at)) {
                __atomic_store_n(&job->ended, 1, __ATOMIC_RELAXED);
                return;
            }
}

static struct comparer *new_comparer(void) {
    struct comparer *self = malloc(sizeof *self);
    if (self)
        self->quick = HAS_SHA_NI && has_sha_ni();
    return self;
}

static void *place_beside(void *given) {
    struct comparer *self = new_comparer();
    if (self)
        place_some(self, given);
    free(self);
    return NULL;
}

/*
 * Puts files in place, from one of them on, and begins with no other when one cannot be; returns the first that is not in place
 * and right: some behind it may be. `reached`, which is zero at first and handed over again when the work goes on, says of each
 * how far it came: what was moved is not moved again. What is displaced goes to `trash` under the names `gone`, or is removed
 * where that is -1.
 */
uint32_t mulligan_place(uint32_t from, uint32_t count, const int *directories, const char *const *names,
                        const int *stages, const char *const *temporaries, const struct placing *wanted,
                        const uint64_t *inodes, int trash, const char *const *gone, unsigned char *reached) {
    struct work job = {count, directories, stages, names, temporaries, gone, wanted, inodes, trash, reached, from, 0};
    struct comparer *self = new_comparer();
    pthread_t thread;
    if (!self)
        return from;
    int helped = count - from >= WORTH_A_THREAD && start_threads(&thread, 1, place_beside, &job);
    place_some(self, &job);
    if (helped)
        pthread_join(thread, NULL);
    free(self);
    while (from < count && reached[from] == PLACED)
        from++;
    return from;
}
