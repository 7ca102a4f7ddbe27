/*
 * Reading files: for each its object id and its finished record of a pack, or nothing.
 *
 * The same steps as `scan/reading.py` takes for a small file: look, open without following a link, wait for the end of
 * writes that had begun, read, look again. Whatever is not as plain as that (another kind of thing, a large file, one that
 * changed meanwhile or in the present tick of the clock, an error, bytes that might be a secret) is left to Python, which
 * decides, reports and waits. Nothing is written anywhere but to memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define LARGEST 262144
#define SECRET_HEAD 4096
#define LONGEST_WRITE INT64_C(600000000000)
#define READ_TASK 8
#define HASH_ONLY 1
#define PLAIN_SHA1 2
#define LATER 4 /* ids at once, and records when all ids are there */

enum { NOT_YET, DONE, LEFT, ABSENT, PACKED };

/* What Python unpacks as one row. */
struct row {
    uint32_t state, crc;
    uint64_t at; /* of the record, in the room for records */
    uint32_t length;
    unsigned char oid[20];
    unsigned char stat[STAT_SIZE];
};

/* What one thread needs to read with. */
struct reader {
    int quick, quick_crc;
    struct deflater deflater;
    unsigned char input[LARGEST + 8];
    unsigned char output[16 + DEFLATE_MOST(LARGEST)];
};

/* Where finished records go, for all threads of one job. */
struct room {
    unsigned char *start;
    uint64_t size, used;
};

struct rules {
    int64_t since;
    int flags;
};

/* -- CRC-32 -- */

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void make_crc_table(void) {
    for (uint32_t at = 0; at < 256; at++) {
        uint32_t value = at;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
        crc_table[0][at] = value;
    }
    for (int level = 1; level < 8; level++)
        for (int at = 0; at < 256; at++)
            crc_table[level][at] = crc_table[level - 1][at] >> 8 ^ crc_table[0][crc_table[level - 1][at] & 255];
}

static uint32_t crc32_of(const unsigned char *data, size_t size) {
    uint32_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low = crc ^ (uint32_t)number(data, 4), high = (uint32_t)number(data + 4, 4);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 255];
    return ~crc;
}

/* With the processor's carry-less multiplication where it has that. */
#if HAS_SHA_NI
/* Moves what was read so far to where it stands in what follows: the remainders of powers of x, for both halves. */
#define FOLDED(x, by) _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11))
#define LOADED(at) _mm_loadu_si128((const __m128i *)(const void *)(at))

__attribute__((target("pclmul,sse4.1"))) static uint32_t crc32_quick(const unsigned char *data, size_t size) {
    const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i a = _mm_xor_si128(LOADED(data), _mm_cvtsi32_si128(-1)), b = LOADED(data + 16), c = LOADED(data + 32);
    __m128i d = LOADED(data + 48);
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        a = _mm_xor_si128(FOLDED(a, far), LOADED(data)), b = _mm_xor_si128(FOLDED(b, far), LOADED(data + 16));
        c = _mm_xor_si128(FOLDED(c, far), LOADED(data + 32)), d = _mm_xor_si128(FOLDED(d, far), LOADED(data + 48));
    }
    a = _mm_xor_si128(FOLDED(a, near), b), a = _mm_xor_si128(FOLDED(a, near), c), a = _mm_xor_si128(FOLDED(a, near), d);
    for (; size >= 16; data += 16, size -= 16)
        a = _mm_xor_si128(FOLDED(a, near), LOADED(data));
    unsigned char folded[16];
    uint32_t crc = 0;
    _mm_storeu_si128((__m128i *)(void *)folded, a);
    for (int at = 0; at < 16; at++)
        crc = crc >> 8 ^ crc_table[0][(crc ^ folded[at]) & 255];
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 255];
    return ~crc;
}
#endif

static uint32_t crc32_by(int quick, const unsigned char *data, size_t size) {
#if HAS_SHA_NI
    if (quick && size >= 64)
        return crc32_quick(data, size);
#endif
    (void)quick;
    return crc32_of(data, size);
}

static int has_quick_crc(void) {
#if HAS_SHA_NI
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#else
    return 0;
#endif
}

/* One way or the other, for the test that asks both. */
uint32_t mulligan_crc32(const unsigned char *data, uint64_t size, int quick) {
    return crc32_by(quick && has_quick_crc(), data, (size_t)size);
}

/* -- secrets -- */

/* Whether `scan/secrets.py` might find a secret here; it alone decides. May say yes too often, never no where it would. */
static int may_be_secret(const unsigned char *data, size_t size) {
    static const char opens_key[] = "-B#/; \t\r\n{\xef", opens_other[] = "PSA\xfe\xff\xce\x03";
    if (size > SECRET_HEAD)
        size = SECRET_HEAD;
    if (!size)
        return 0;
    if (memchr(opens_other, data[0], sizeof opens_other - 1)) {
        static const char *const words[] = {"PuTTY-", "SSH PR", "Access", "AWSAcc"};
        int word = 0;
        for (unsigned at = 0; at < sizeof words / sizeof *words && size >= 6; at++)
            word |= !memcmp(data, words[at], 6);
        if (word || data[0] < ' ' || data[0] > '~')
            return 1;
    }
    if (memchr(opens_key, data[0], sizeof opens_key - 1) && memmem(data, size, "PRIVATE KEY", 11))
        return 1;
    if (size >= 20 && size <= 2048) { /* few lines may be nothing but a token */
        int lines = 0;
        const unsigned char *at = data, *end = data + size;
        while (lines <= 6 && (at = memchr(at, '\n', (size_t)(end - at))))
            lines++, at++;
        return lines <= 6;
    }
    return 0;
}

/* -- one file -- */

static void put_number(unsigned char *to, uint64_t value) {
    for (int at = 0; at < 8; at++)
        to[at] = (unsigned char)(value >> at * 8);
}

static int put_stat(unsigned char *to, const struct stat *st) {
    int64_t modified, changed;
    if (!in_ns(st->st_mtim, &modified) || !in_ns(st->st_ctim, &changed))
        return 0;
    put_number(to, (uint64_t)st->st_ino);
    put_number(to + 8, (uint64_t)st->st_mode);
    put_number(to + 16, (uint64_t)st->st_size);
    put_number(to + 24, (uint64_t)modified);
    put_number(to + 32, (uint64_t)changed);
    return 1;
}

/* Reads a file that should have a size, and a byte more if there is one; returns how many there were. */
static size_t read_whole(int fd, unsigned char *to, size_t size) {
    size_t got = 0;
    while (got <= size) {
        ssize_t part = read(fd, to + got, size + 1 - got);
        if (part < 0)
            return SIZE_MAX;
        got += (size_t)part;
        if (!part || got == size) /* had it grown, the second look would tell */
            break;
    }
    return got;
}

static void let_writes_end(int fd) {
    /* `safefs/stillness.py` says why. */
    if (lseek(fd, 0, SEEK_DATA))
        lseek(fd, 0, SEEK_SET);
}

/* Takes a part of the room, and tells where it is; NULL where there is none. */
static unsigned char *reserve(struct room *room, uint64_t size, uint64_t *at) {
    *at = __atomic_fetch_add(&room->used, size, __ATOMIC_RELAXED);
    return *at > room->size || room->size - *at < size ? NULL : room->start + *at;
}

/* Makes the record of a blob; `out` has room for 16 + DEFLATE_MOST(size) bytes. */
static void pack_blob(struct reader *self, const unsigned char *content, size_t size, unsigned char *out, struct row *row) {
    unsigned char *to = out;
    size_t left = size >> 4;
    *to = (unsigned char)(3 << 4 | (size & 15)); /* a blob, and its size */
    while (left) {
        *to++ |= 0x80;
        *to = (unsigned char)(left & 0x7f);
        left >>= 7;
    }
    to++;
    row->length = (uint32_t)((size_t)(to - out) + deflate(&self->deflater, content, size, to));
    row->crc = crc32_by(self->quick_crc, out, row->length);
}

static int pack(struct reader *self, size_t size, struct row *row, struct room *room) {
    pack_blob(self, self->input, size, self->output, row);
    unsigned char *to = reserve(room, row->length, &row->at);
    if (!to)
        return 0; /* Python reads it when there is room again */
    memcpy(to, self->output, row->length);
    return 1;
}

/* What is read now and packed later takes room for its bytes and, behind them, for the largest record of them. */
#define INPUT_ROOM(size) ((size) + 8)
#define LATER_ROOM(size) (INPUT_ROOM(size) + 16 + DEFLATE_MOST(size))

/* `row->stat` holds what the file should be like. */
static int read_one(struct reader *self, int directory, const char *name, struct row *row, struct room *room,
                    const struct rules *rules) {
    uint64_t mode = number(row->stat + 8, 8), size = number(row->stat + 16, 8);
    int64_t changed = (int64_t)number(row->stat + 32, 8);
    struct stat after;
    char header[32];
    unsigned char *input = self->input;
    row->at = row->length = row->crc = 0;
    /* A file system without parts of a second stamps all that happens in one of them alike, FAT in two. */
    int64_t began = changed % SECOND ? rules->since : rules->since - rules->since % (2 * SECOND);
    if ((mode & S_IFMT) != S_IFREG || size > LARGEST || changed >= began)
        return 0;
    if (rules->flags & LATER && !(input = reserve(room, LATER_ROOM(size), &row->at)))
        return 0; /* Python reads it when there is room again */
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    if (changed >= rules->since - LONGEST_WRITE)
        let_writes_end(fd);
    int same = read_whole(fd, input, (size_t)size) == (size_t)size && !fstat(fd, &after) &&
               same_entry(&after, row->stat);
    close(fd);
    if (!same || may_be_secret(input, (size_t)size))
        return 0;
    int header_size = snprintf(header, sizeof header, "blob %llu", (unsigned long long)size) + 1;
    sha1_of((const unsigned char *)header, (size_t)header_size, input, (size_t)size, row->oid, self->quick);
    return rules->flags & (HASH_ONLY | LATER) || pack(self, (size_t)size, row, room);
}

static struct reader *new_reader(int flags) {
    struct reader *self = malloc(sizeof *self);
    if (self)
        self->quick = HAS_SHA_NI && !(flags & PLAIN_SHA1) && has_sha_ni(), self->quick_crc = has_quick_crc();
    return self;
}

/* -- files of one directory that were looked at already -- */

void *mulligan_reader(int flags) { return new_reader(flags); }

void mulligan_reader_end(void *reader) { free(reader); }

/* Reads files that should be like `wanted`, the stat fields of one after the other; `names` are ended by NULs. */
void mulligan_read(void *reader, int directory, uint32_t count, const char *names, const unsigned char *wanted,
                   struct row *rows, unsigned char *records, uint64_t size, int64_t since, int flags) {
    struct room room = {records, size, 0};
    struct rules rules = {since, flags};
    for (uint32_t at = 0; at < count; at++, names += strlen(names) + 1) {
        memcpy(rows[at].stat, wanted + (size_t)at * STAT_SIZE, STAT_SIZE);
        rows[at].state = read_one(reader, directory, names, &rows[at], &room, &rules) ? DONE : LEFT;
    }
}

/* -- files in many directories, ahead of the one who will ask for them -- */

struct ahead {
    int root;
    dev_t device;
    uint32_t count; /* of directories */
    const char *const *paths, *const *names;
    const uint32_t *first; /* the first row of each directory, and behind the last */
    struct row *rows;
    unsigned char *own; /* the stat fields of each directory; of one that could not be had, zeros */
    struct room room;
    struct rules rules;
    uint32_t next, next_packed;
    unsigned char *done, *packed; /* by task */
    int ended;
    struct reader *helper; /* the caller's, made when it helps */
    int threads;
    pthread_t thread[MOST_THREADS];
};

static void read_directory(struct ahead *job, struct reader *reader, int fd, uint32_t at) {
    struct stat st;
    const char *name = job->names[at];
    int known = fd >= 0 && reader && !fstat(fd, &st) && st.st_dev == job->device &&
                put_stat(job->own + (size_t)at * STAT_SIZE, &st);
    for (uint32_t each = job->first[at]; each < job->first[at + 1]; each++, name += strlen(name) + 1) {
        struct row *row = &job->rows[each];
        if (*name == '/') { /* not to be read: is anything there? */
            row->state = known && fstatat(fd, name + 1, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT ? ABSENT : LEFT;
            continue;
        }
        /* What has a second name is written to by that one too: Python thinks of it. */
        row->state = known && !fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_nlink == 1 &&
                             put_stat(row->stat, &st) && read_one(reader, fd, name, row, &job->room, &job->rules)
                         ? DONE
                         : LEFT;
    }
}

/* Does one more task; returns 0 when all are taken. */
static int step(struct ahead *job, struct reader *reader) {
    uint32_t from = __atomic_fetch_add(&job->next, READ_TASK, __ATOMIC_RELAXED);
    if (from >= job->count)
        return 0;
    uint32_t to = job->count - from < READ_TASK ? job->count : from + READ_TASK;
    struct open_directory above[DEEPEST];
    int depth = 0;
    const char *before = "";
    for (uint32_t at = from; at < to; at++) {
        while (depth && !is_below(job->paths[at], before, above[depth - 1].length))
            close(above[--depth].fd);
        read_directory(job, reader, descend(job->root, job->paths[at], above, &depth), at);
        before = job->paths[at];
    }
    while (depth)
        close(above[--depth].fd);
    __atomic_store_n(&job->done[from / READ_TASK], 1, __ATOMIC_RELEASE);
    return 1;
}

static const struct timespec moment = {0, 20000};

/* Packs the files of one more task, when they were read; returns 0 when all are taken. */
static int pack_step(struct ahead *job, struct reader *reader) {
    uint32_t from = __atomic_fetch_add(&job->next_packed, READ_TASK, __ATOMIC_RELAXED);
    if (from >= job->count)
        return 0;
    while (!__atomic_load_n(&job->done[from / READ_TASK], __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&job->ended, __ATOMIC_RELAXED))
            return 0;
        nanosleep(&moment, NULL);
    }
    uint32_t to = job->count - from < READ_TASK ? job->count : from + READ_TASK;
    for (uint32_t each = job->first[from]; each < job->first[to]; each++) {
        struct row *row = &job->rows[each];
        uint64_t size = number(row->stat + 16, 8), at = row->at + INPUT_ROOM(size);
        if (row->state != DONE)
            continue;
        pack_blob(reader, job->room.start + row->at, (size_t)size, job->room.start + at, row);
        row->at = at, row->state = PACKED;
    }
    __atomic_store_n(&job->packed[from / READ_TASK], 1, __ATOMIC_RELEASE);
    return 1;
}

static void *read_ahead(void *given) {
    struct ahead *job = given;
    struct reader *reader = new_reader(job->rules.flags);
    while (reader && step(job, reader))
        ;
    while (reader && job->rules.flags & LATER && pack_step(job, reader))
        ;
    free(reader);
    return NULL;
}

/* Begins to read the named files of directories below a root; returns what the next two need, NULL when it cannot. */
void *mulligan_ahead(int root, uint32_t count, const char *const *paths, const char *const *names,
                     const uint32_t *first, struct row *rows, unsigned char *own, unsigned char *records, uint64_t size,
                     int64_t since, int flags, int threads) {
    struct stat st;
    struct ahead *job = calloc(1, sizeof *job);
    if (job)
        job->done = calloc(count / READ_TASK + 1, 1), job->packed = calloc(count / READ_TASK + 1, 1);
    if (!job || !job->done || !job->packed || fstat(root, &st)) {
        if (job)
            free(job->done), free(job->packed);
        free(job);
        return NULL;
    }
    job->root = fcntl(root, F_DUPFD_CLOEXEC, 3); /* who has it open may close his own */
    job->device = st.st_dev, job->count = count, job->paths = paths, job->names = names;
    job->first = first, job->rows = rows, job->own = own, job->room = (struct room){records, size, 0};
    job->rules = (struct rules){since, flags};
    job->threads = start_threads(job->thread, threads, read_ahead, job);
    return job;
}

/* Returns when the files of one directory were read, and helps meanwhile. */
void mulligan_ahead_wait(void *given, uint32_t directory) {
    struct ahead *job = given;
    while (!__atomic_load_n(&job->done[directory / READ_TASK], __ATOMIC_ACQUIRE)) {
        if (!job->helper)
            job->helper = new_reader(job->rules.flags);
        if (!step(job, job->helper))
            nanosleep(&moment, NULL);
    }
}

/* Returns when all that was read is packed, and helps meanwhile; 0 where there is no memory for that. */
int mulligan_ahead_packed(void *given) {
    struct ahead *job = given;
    if (!job->helper && !(job->helper = new_reader(job->rules.flags)))
        return 0;
    while (step(job, job->helper) || pack_step(job, job->helper))
        ;
    for (uint32_t at = 0; at < job->count; at += READ_TASK)
        while (!__atomic_load_n(&job->packed[at / READ_TASK], __ATOMIC_ACQUIRE))
            nanosleep(&moment, NULL);
    return 1;
}

/* Ends it, whether everything was read or not. */
void mulligan_ahead_end(void *given) {
    struct ahead *job = given;
    __atomic_store_n(&job->next, job->count, __ATOMIC_RELAXED);
    __atomic_store_n(&job->next_packed, job->count, __ATOMIC_RELAXED);
    __atomic_store_n(&job->ended, 1, __ATOMIC_RELAXED);
    while (job->threads)
        pthread_join(job->thread[--job->threads], NULL);
    if (job->root >= 0)
        close(job->root);
    free(job->helper);
    free(job->done), free(job->packed);
    free(job);
}
