/*
 * The optional compiled part: the log of what is remembered, read and looked at while Python still loads its modules.
 *
 * The log is the one of `scan/cache.py`, and what counts of it is what that would take over: frames of a head (four numbers
 * of four bytes: the lengths of path and record, the CRC-32 of both, nothing), a path and a record, as far as they are whole;
 * the last record of a directory counts, and a record of one NUL takes it away. Directories are put in the order of a walk,
 * looked at as `glance.c` does, and joined as `scan/glance.py` joins them. Nothing is written.
 */

#define FRAME_SIZE 16
#define TRUSTED 1
#define HAS_IGNORES 4
#define LEANS 8
#define ENOUGH (UINT32_MAX / 2)
static const char log_magic[] = "mulligan-cache-4\n", root_frame[] = "\0root";

struct remembered {
    const char *path;
    const unsigned char *record;
    uint32_t path_size, size;
};

struct recall {
    struct job job;
    int log, is_read, is_good, has_reader;
    pthread_mutex_t lock;
    pthread_cond_t told;
    pthread_t reader;
    unsigned char *data;
    uint64_t whole, live;
    const unsigned char *note; /* behind the root frame: the tree, and what was noted beside it */
    uint32_t note_size, frames, count, mask;
    struct remembered *all;
    uint32_t *table; /* by the hash of a path: its place and one, 0 for none */
    uint32_t *end;
    char *paths;
};

static uint32_t hash_of(const char *path, uint32_t size) {
    uint64_t hash = 1469598103934665603u;
    for (uint32_t at = 0; at < size; at++)
        hash = (hash ^ (unsigned char)path[at]) * 1099511628211u;
    return (uint32_t)(hash ^ hash >> 32);
}

/* Returns where a path is in the table, or would be. */
static uint32_t *slot_of(const struct recall *self, const char *path, uint32_t size) {
    for (uint32_t at = hash_of(path, size) & self->mask;; at = (at + 1) & self->mask) {
        uint32_t place = self->table[at];
        if (!place || (self->all[place - 1].path_size == size && !memcmp(self->all[place - 1].path, path, size)))
            return &self->table[at];
    }
}

static int read_bytes(struct recall *self, uint64_t *size) {
    struct stat st;
    if (fstat(self->log, &st) || st.st_size < (off_t)sizeof log_magic - 1 || !(self->data = malloc((size_t)st.st_size)))
        return 0;
    for (*size = 0; *size < (uint64_t)st.st_size;) {
        ssize_t got = pread(self->log, self->data + *size, (size_t)st.st_size - *size, (off_t)*size);
        if (got < 0)
            return 0;
        if (!got)
            break;
        *size += (uint64_t)got;
    }
    return *size >= sizeof log_magic - 1 && !memcmp(self->data, log_magic, sizeof log_magic - 1);
}

/* Counts the frames that are whole, and how much room their paths take. */
static uint64_t count_frames(struct recall *self, uint64_t size) {
    uint64_t at = sizeof log_magic - 1, letters = 0;
    int quick = has_quick_crc();
    while (size - at >= FRAME_SIZE) {
        const unsigned char *frame = self->data + at;
        uint64_t path = number(frame, 4), record = number(frame + 4, 4);
        if (size - at - FRAME_SIZE < path + record ||
            crc32_by(quick, frame + FRAME_SIZE, (size_t)(path + record)) != (uint32_t)number(frame + 8, 4))
            break;
        at += FRAME_SIZE + path + record;
        letters += path + 1;
        self->frames++;
    }
    self->whole = at;
    return letters;
}

/* Takes over one frame; 0 for one that only Python understands. */
static int take_over(struct recall *self, const unsigned char *frame, char *path) {
    uint32_t path_size = (uint32_t)number(frame, 4), size = (uint32_t)number(frame + 4, 4);
    const unsigned char *record = frame + FRAME_SIZE + path_size;
    memcpy(path, frame + FRAME_SIZE, path_size);
    path[path_size] = 0;
    if (path_size == sizeof root_frame - 1 && !memcmp(path, root_frame, path_size)) {
        self->note = record, self->note_size = size;
        return 1;
    }
    if (memchr(path, 0, path_size))
        return 0;
    uint32_t *slot = slot_of(self, path, path_size);
    if (!*slot) {
        self->all[self->count] = (struct remembered){path, NULL, path_size, 0};
        *slot = ++self->count;
    }
    int gone = size == 1 && !*record;
    self->all[*slot - 1].record = gone ? NULL : record;
    self->all[*slot - 1].size = gone ? 0 : size;
    return 1;
}

static int rank(unsigned char letter) {
    return letter == '/' ? 1 : letter ? letter + 1 : 0;
}

/* What is below a directory follows it, before its next sibling. */
static int by_walk(const void *one, const void *other) {
    const unsigned char *left = (const unsigned char *)((const struct remembered *)one)->path;
    const unsigned char *right = (const unsigned char *)((const struct remembered *)other)->path;
    while (*left && *left == *right)
        left++, right++;
    return rank(*left) - rank(*right);
}

static int make_room(struct recall *self, uint64_t letters) {
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)self->frames)
        slots *= 2;
    if (slots > ENOUGH)
        return 0;
    self->mask = (uint32_t)slots - 1;
    self->all = calloc(self->frames + 1, sizeof *self->all);
    self->table = calloc((size_t)slots, sizeof *self->table);
    self->paths = malloc((size_t)letters + 1);
    return self->all && self->table && self->paths;
}

/* Leaves out what is gone, brings the rest in order, and makes of it what can be looked at. */
static int arrange(struct recall *self) {
    uint32_t count = 0;
    for (uint32_t at = 0; at < self->count; at++)
        if (self->all[at].record)
            self->all[count++] = self->all[at];
    self->count = count;
    qsort(self->all, count, sizeof *self->all, by_walk);
    memset(self->table, 0, ((size_t)self->mask + 1) * sizeof *self->table);
    const char **paths = calloc(count + 1, sizeof *paths);
    const unsigned char **records = calloc(count + 1, sizeof *records);
    uint32_t *sizes = calloc(count + 1, sizeof *sizes);
    self->job.paths = paths, self->job.records = records, self->job.sizes = sizes;
    self->job.same = calloc(count + 1, 1);
    self->end = calloc(count + 1, sizeof *self->end);
    if (!paths || !records || !sizes || !self->job.same || !self->end)
        return 0;
    for (uint32_t at = 0; at < count; at++) {
        const struct remembered *each = &self->all[at];
        paths[at] = each->path, records[at] = each->record, sizes[at] = each->size;
        self->live += each->size;
        *slot_of(self, each->path, each->path_size) = at + 1;
    }
    self->job.count = count;
    return 1;
}

static int read_log(struct recall *self) {
    uint64_t size, letters;
    if (!read_bytes(self, &size))
        return 0;
    letters = count_frames(self, size);
    if (!make_room(self, letters))
        return 0;
    char *path = self->paths;
    const unsigned char *frame = self->data + sizeof log_magic - 1;
    for (uint32_t at = 0; at < self->frames; at++) {
        if (!take_over(self, frame, path))
            return 0;
        path += number(frame, 4) + 1;
        frame += FRAME_SIZE + number(frame, 4) + number(frame + 4, 4);
    }
    return arrange(self);
}

static void tell(struct recall *self) {
    int good = read_log(self);
    if (!good)
        self->count = 0;
    close(self->log);
    pthread_mutex_lock(&self->lock);
    self->is_good = good, self->is_read = 1;
    pthread_cond_broadcast(&self->told);
    pthread_mutex_unlock(&self->lock);
}

static void *read_and_look(void *given) {
    struct recall *self = given;
    tell(self);
    return self->is_good ? work(&self->job) : NULL;
}

/* Begins to read the log and to look; returns what the others need, NULL when it cannot. The root stays open for them. */
void *mulligan_recall(int log, int root, int threads) {
    struct stat st;
    struct recall *self = calloc(1, sizeof *self);
    if (!self || fstat(root, &st) || (self->log = fcntl(log, F_DUPFD_CLOEXEC, 0)) < 0) {
        free(self);
        return NULL;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->told, NULL);
    self->job.root = root, self->job.device = st.st_dev;
    self->has_reader = threads > 0 && start_threads(&self->reader, 1, read_and_look, self);
    if (!self->has_reader)
        tell(self);
    return self;
}

/* Waits until the log is read; returns whether that went well, and tells: bytes that are whole, directories, bytes of their
   records, the note and its length. */
int mulligan_recalled(void *given, uint64_t *told) {
    struct recall *self = given;
    pthread_mutex_lock(&self->lock);
    while (!self->is_read)
        pthread_cond_wait(&self->told, &self->lock);
    pthread_mutex_unlock(&self->lock);
    told[0] = self->whole, told[1] = self->count, told[2] = self->live;
    told[3] = (uint64_t)(uintptr_t)self->note, told[4] = self->note_size;
    return self->is_good;
}

/* Whether the directory at a place is, with all below it, as it was; returns where that ends. */
static uint32_t joined(const struct recall *self, uint32_t at, int index_changed) {
    const struct remembered *here = &self->all[at];
    const unsigned char *record = here->record;
    if (!self->job.same[at] || (record[82] & (TRUSTED | HAS_IGNORES)) != TRUSTED)
        return 0;
    if (index_changed && (number(record + 91, 4) || record[82] & LEANS))
        return 0;
    uint32_t stop = at + 1;
    if (!number(record + 99, 4))
        return stop;
    /* It is as it was, so its lengths were found to be right. */
    const char *name = (const char *)record + HEAD_SIZE + number(record + 83, 4), *end = name + number(record + 87, 4);
    uint32_t above = here->path_size ? here->path_size + 1 : 0;
    for (;;) {
        const char *next = memchr(name, 0, (size_t)(end - name));
        size_t length = (size_t)((next ? next : end) - name);
        const struct remembered *below = &self->all[stop];
        if (stop >= self->count || !self->end[stop] || memcmp(below->record + 24, record + 24, 16) ||
            below->path_size != above + length || memcmp(below->path, here->path, here->path_size) ||
            (above && below->path[above - 1] != '/') || memcmp(below->path + above, name, length))
            return 0;
        stop = self->end[stop];
        if (!next)
            return stop;
        name = next + 1;
    }
}

/* Looks at what is left, waits until all is done, and joins it. */
void mulligan_recall_end(void *given, int index_changed) {
    struct recall *self = given;
    if (self->is_good)
        work(&self->job);
    if (self->has_reader)
        pthread_join(self->reader, NULL);
    self->has_reader = 0;
    for (uint32_t at = self->count; self->is_good && at-- > 0;)
        self->end[at] = joined(self, at, index_changed);
}

/* The place of a directory, -1 for one that is not remembered. */
int64_t mulligan_recall_find(void *given, const char *path, uint32_t size) {
    const struct recall *self = given;
    return self->count ? (int64_t)*slot_of(self, path, size) - 1 : -1;
}

/* Tells path, its length, record, its length, and where its subtree ends. */
void mulligan_recall_at(void *given, uint32_t at, uint64_t *told) {
    const struct recall *self = given;
    static const struct remembered nothing;
    const struct remembered *here = at < self->count ? &self->all[at] : &nothing;
    told[0] = (uint64_t)(uintptr_t)here->path, told[1] = here->path_size;
    told[2] = (uint64_t)(uintptr_t)here->record, told[3] = here->size;
    told[4] = at < self->count ? self->end[at] : 0;
}

/* How many files are captured from one place to another, in directories that are as they were. */
uint64_t mulligan_recall_files(void *given, uint32_t from, uint32_t to) {
    const struct recall *self = given;
    uint64_t files = 0;
    for (; from < to && to <= self->count; from++)
        files += self->end[from] ? number(self->all[from].record + 95, 4) : 0;
    return files;
}

/* The next place in which something is not captured, of directories that are as they were. */
uint32_t mulligan_recall_missing(void *given, uint32_t from, uint32_t to) {
    const struct recall *self = given;
    while (from < to && to <= self->count && (!self->end[from] || !number(self->all[from].record + 91, 4)))
        from++;
    return from;
}

/* Looks at the directories alone, all of them, once more. */
void mulligan_recall_again(void *given, int threads) {
    struct recall *self = given;
    self->job.again = 1, self->job.next = 0;
    self->job.threads = start_threads(self->job.thread, threads, work, &self->job);
    work(&self->job);
    while (self->job.threads)
        pthread_join(self->job.thread[--self->job.threads], NULL);
}

/* The next place in which the second look found another directory than the first. */
uint32_t mulligan_recall_moved(void *given, uint32_t from, uint32_t to) {
    const struct recall *self = given;
    while (from < to && self->job.same[from])
        from++;
    return from;
}

/* Ends the looking, however far it came; what was read stays. */
void mulligan_recall_stop(void *given) {
    struct recall *self = given;
    __atomic_store_n(&self->job.next, ENOUGH, __ATOMIC_RELAXED);
    if (self->has_reader)
        pthread_join(self->reader, NULL);
    self->has_reader = 0;
}

void mulligan_recall_free(void *given) {
    struct recall *self = given;
    mulligan_recall_stop(self);
    free(self->data), free(self->all), free(self->table), free(self->end), free(self->paths);
    free((void *)self->job.paths), free((void *)self->job.records), free((void *)self->job.sizes), free(self->job.same);
    pthread_cond_destroy(&self->told);
    pthread_mutex_destroy(&self->lock);
    free(self);
}
