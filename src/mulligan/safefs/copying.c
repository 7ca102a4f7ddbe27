/*
 * The optional compiled part: records of the user's packs, copied as they stand into packs of our own.
 *
 * The same checks as `scan/git/records.py` makes, which is the truth that this is tested against: the index of a pack has the
 * right checksum and belongs to the pack; a record has the CRC-32 that stands there, is a whole object of the kind and size that
 * is wanted, and is checked in memory before it is written. Deltas, and whatever else is not as plain, are not copied here. Packs and
 * their indexes are anybody's: no number in them is believed. Files are the caller's, who makes them durable.
 */
#define PACK_INDEX_FIRST (8 + 1024)
#define PACK_HEAD 12
#define RUN (256u << 10)
#define LONGEST (8u << 20)
#define WRITTEN (8u << 20)
#define PACK_TREE 2
#define PACK_BLOB 3
#define PACK_DELTA 6
#define MOST_PACKS 64

enum { UNWANTED, WANTED, PLANNED, TAKEN, REFUSED, REFUSED_DELTA, TORN };

struct want {
    unsigned char oid[OID_SIZE];
    unsigned char kind, state, is_base;
    uint64_t size;
};

struct source {
    int fd, index_fd;
    uint32_t count;
    unsigned char *index; /* ids, and behind them CRC-32s, as they stand */
    uint64_t *offsets;    /* by the place of an id */
    uint64_t *order;      /* places by their offsets */
    uint32_t *row; /* by the place of an id: what may be wanted of it, then its row among those to be copied, and one; 0 for none */
    uint64_t end, size; /* of its records; of its index */
};

struct copied {
    uint32_t want, source, place, crc, length;
    uint64_t offset;
    uint32_t to; /* where it stands in the new pack; 0 for one that is not taken */
    unsigned char is_bad;
};

struct new_pack {
    uint32_t first, last; /* rows */
    int fd, error;
    uint64_t size;
    unsigned char checksum[OID_SIZE];
    unsigned char *index;
    uint64_t index_size;
};

struct copying {
    uint64_t seed;
    struct want *wants;
    uint32_t count, room, mask, *table;
    struct source sources[MOST_PACKS];
    uint32_t packs;
    uint64_t limit; /* of all indexes together */
    pthread_t opener;
    int is_opened, is_opening;
    struct copied *rows;
    uint32_t rows_count;
    struct new_pack *made;
    uint32_t made_count, next, workers;
    int threads;
    pthread_t thread[MOST_THREADS];
    int quick, quick_crc;
};

/* -- SHA-1, piece by piece -- */

struct hashing {
    uint32_t state[5];
    unsigned char rest[64];
    uint64_t size;
    int quick;
};

static void hash_blocks(struct hashing *self, const unsigned char *data, size_t blocks) {
#if HAS_SHA_NI
    if (self->quick) {
        sha1_quick(self->state, data, blocks);
        return;
    }
#endif
    sha1_plain(self->state, data, blocks);
}

static void hash_begin(struct hashing *self, int quick) {
    static const uint32_t first[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    memcpy(self->state, first, sizeof first);
    self->size = 0, self->quick = quick;
}

static void hash_more(struct hashing *self, const unsigned char *data, size_t size) {
    size_t held = self->size % 64;
    if (!size)
        return;
    self->size += size;
    if (held) {
        size_t taken = size < 64 - held ? size : 64 - held;
        memcpy(self->rest + held, data, taken);
        data += taken, size -= taken;
        if (held + taken < 64)
            return;
        hash_blocks(self, self->rest, 1);
    }
    hash_blocks(self, data, size / 64);
    memcpy(self->rest, data + size / 64 * 64, size % 64);
}

/* Hashes more of two at once, which takes little longer than more of one. */
static void hash_both(struct hashing *one, const unsigned char *data, size_t size, struct hashing *other,
                      const unsigned char *more, size_t more_size) {
#if HAS_SHA_NI
    if (one->quick && other->quick) {
        size_t first = (64 - one->size % 64) % 64, second = (64 - other->size % 64) % 64;
        if (size >= first + 64 && more_size >= second + 64) {
            hash_more(one, data, first), hash_more(other, more, second);
            data += first, size -= first, more += second, more_size -= second;
            size_t blocks = (size < more_size ? size : more_size) / 64;
            sha1_two(one->state, data, other->state, more, blocks);
            one->size += blocks * 64, other->size += blocks * 64;
            data += blocks * 64, size -= blocks * 64, more += blocks * 64, more_size -= blocks * 64;
        }
    }
#endif
    hash_more(one, data, size), hash_more(other, more, more_size);
}

static void hash_end(struct hashing *self, unsigned char *digest) {
    uint64_t bits = self->size * 8;
    unsigned char last[128] = {0};
    size_t held = self->size % 64, end = held < 56 ? 64 : 128;
    memcpy(last, self->rest, held);
    last[held] = 0x80;
    store_be32(last + end - 8, (uint32_t)(bits >> 32)), store_be32(last + end - 4, (uint32_t)bits);
    hash_blocks(self, last, end / 64);
    for (int at = 0; at < 5; at++)
        store_be32(digest + at * 4, self->state[at]);
}

/* -- what is wanted -- */

static uint32_t place_of(const struct copying *self, const unsigned char *oid) {
    /* Ids are anybody's choice, the seed is not. */
    uint64_t one, two, hash;
    uint32_t three;
    memcpy(&one, oid, 8), memcpy(&two, oid + 8, 8), memcpy(&three, oid + 16, 4);
    hash = (one ^ self->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = ((hash ^ hash >> 29) + two) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = ((hash ^ hash >> 32) + three + self->seed) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 32) & self->mask;
}

/* Returns where an id is in the table, or would be. */
static uint32_t *want_at(const struct copying *self, const unsigned char *oid) {
    for (uint32_t at = place_of(self, oid);; at = (at + 1) & self->mask) {
        uint32_t *slot = &self->table[at];
        if (!*slot || !memcmp(self->wants[*slot - 1].oid, oid, OID_SIZE))
            return slot;
    }
}

/* The place of an object among those that may be wanted, and one. */
static uint32_t known(struct copying *self, const unsigned char *oid) {
    uint32_t *slot = want_at(self, oid);
    if (!*slot) {
        struct want *made = &self->wants[self->count];
        memset(made, 0, sizeof *made);
        memcpy(made->oid, oid, OID_SIZE);
        *slot = ++self->count;
    }
    return *slot;
}

static void want(struct want *self, unsigned char kind, uint64_t size) {
    if (self->state == UNWANTED)
        self->state = WANTED, self->kind = kind, self->size = size;
    else if (self->size != size || self->kind != kind)
        self->state = TORN; /* two sizes for one object: one of them is a lie */
}

void mulligan_copy_end(void *given, int leave);

static void wait_for_opener(struct copying *self) {
    if (self->is_opening)
        pthread_join(self->opener, NULL);
    self->is_opening = 0;
}

static void close_source(struct source *pack) {
    free(pack->index), free(pack->offsets), free(pack->order), free(pack->row);
    pack->index = NULL, pack->offsets = pack->order = NULL, pack->row = NULL, pack->count = 0;
}

void mulligan_copy_free(void *given) {
    struct copying *self = given;
    wait_for_opener(self);
    mulligan_copy_end(self, 1);
    for (uint32_t at = 0; at < self->packs; at++)
        close_source(&self->sources[at]);
    for (uint32_t at = 0; at < self->made_count; at++)
        free(self->made[at].index);
    free(self->wants), free(self->table), free(self->rows), free(self->made);
    free(self);
}

/* Begins with nothing; NULL where there is no room. */
void *mulligan_copy(uint64_t seed) {
    struct copying *self = calloc(1, sizeof *self);
    if (self)
        self->seed = seed, self->quick = has_sha_ni(), self->quick_crc = has_quick_crc();
    return self;
}

/* -- opening packs -- */

static int read_at(int fd, unsigned char *to, uint64_t size, uint64_t at) {
    while (size) {
        ssize_t got = pread(fd, to, size < LONGEST ? (size_t)size : LONGEST, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        to += got, at += (uint64_t)got, size -= (uint64_t)got;
    }
    return 1;
}

static uint64_t big64(const unsigned char *at) { return (uint64_t)big(at) << 32 | big(at + 4); }

/* Sorts places by their offsets, by eleven bits at a time. */
static int sort_by_offset(struct source *pack) {
    uint64_t *other = malloc(pack->count * sizeof *other), most = 0;
    if (!other)
        return 0;
    for (uint32_t at = 0; at < pack->count; at++) {
        pack->order[at] = at;
        most |= pack->offsets[at];
    }
    for (int shift = 0; shift < 64 && most >> shift; shift += 11) {
        uint32_t start[2049] = {0};
        for (uint32_t at = 0; at < pack->count; at++)
            start[(pack->offsets[at] >> shift & 2047) + 1]++;
        for (int at = 0; at < 2048; at++)
            start[at + 1] += start[at];
        for (uint32_t at = 0; at < pack->count; at++)
            other[start[pack->offsets[pack->order[at]] >> shift & 2047]++] = pack->order[at];
        uint64_t *swap = pack->order;
        pack->order = other, other = swap;
    }
    free(other);
    return 1;
}

static int open_source(const struct copying *self, struct source *pack, uint64_t limit) {
    struct stat st, whole;
    unsigned char head[PACK_HEAD], trailer[OID_SIZE], digest[OID_SIZE];
    if (fstat(pack->index_fd, &st) || fstat(pack->fd, &whole) || (uint64_t)st.st_size > limit ||
        st.st_size < PACK_INDEX_FIRST + 2 * OID_SIZE || whole.st_size <= PACK_HEAD + OID_SIZE)
        return 0;
    uint64_t size = (uint64_t)st.st_size, end = size - 2 * OID_SIZE;
    if (!(pack->index = malloc((size_t)size)) || !read_at(pack->index_fd, pack->index, size, 0) ||
        memcmp(pack->index, "\377tOc\0\0\0\2", 8))
        return 0;
    pack->count = big(pack->index + PACK_INDEX_FIRST - 4);
    pack->end = (uint64_t)whole.st_size - OID_SIZE, pack->size = size;
    uint64_t offsets = PACK_INDEX_FIRST + 24 * (uint64_t)pack->count, large = offsets + 4 * (uint64_t)pack->count;
    if (!pack->count || large > end || (end - large) % 8)
        return 0;
    struct hashing hash;
    hash_begin(&hash, self->quick);
    hash_more(&hash, pack->index, (size_t)(size - OID_SIZE));
    hash_end(&hash, digest);
    if (memcmp(digest, pack->index + size - OID_SIZE, OID_SIZE) || !read_at(pack->fd, head, PACK_HEAD, 0) ||
        !read_at(pack->fd, trailer, OID_SIZE, pack->end) || memcmp(head, "PACK\0\0\0\2", 8) ||
        big(head + 8) != pack->count || memcmp(trailer, pack->index + end, OID_SIZE))
        return 0;
    pack->offsets = malloc(pack->count * sizeof *pack->offsets), pack->order = malloc(pack->count * sizeof *pack->order);
    pack->row = calloc(pack->count, sizeof *pack->row);
    if (!pack->offsets || !pack->order || !pack->row)
        return 0;
    for (uint32_t at = 0; at < pack->count; at++) {
        uint64_t offset = big(pack->index + offsets + 4 * (uint64_t)at);
        if (offset >> 31 && end > large) {
            if ((offset & 0x7fffffff) >= (end - large) / 8)
                return 0;
            offset = big64(pack->index + large + 8 * (offset & 0x7fffffff));
        }
        pack->offsets[at] = offset;
    }
    return sort_by_offset(pack);
}

static void plan_row(struct copying *self, uint32_t source, uint32_t place, uint64_t length) {
    struct source *pack = &self->sources[source];
    uint32_t slot = pack->row[place];
    pack->row[place] = 0;
    if (!slot || self->wants[slot - 1].state != WANTED)
        return;
    uint32_t crc = big(pack->index + PACK_INDEX_FIRST + OID_SIZE * (uint64_t)pack->count + 4 * (uint64_t)place);
    self->rows[self->rows_count++] = (struct copied){
        .want = slot - 1, .source = source, .place = place, .crc = crc, .length = (uint32_t)length, .offset = pack->offsets[place]};
    pack->row[place] = self->rows_count;
    self->wants[slot - 1].state = PLANNED; /* once, so that there is room for all */
}

static void *open_all(void *given) {
    struct copying *self = given;
    for (uint32_t at = 0; at < self->packs; at++) {
        struct source *pack = &self->sources[at];
        if (open_source(self, pack, self->limit))
            self->limit -= pack->size;
        else
            close_source(pack);
    }
    return NULL;
}

/* Takes a pack and its index, whose descriptors stay the caller's; 0 for one too many. */
int mulligan_copy_add(void *given, int index, int fd) {
    struct copying *self = given;
    if (self->packs == MOST_PACKS)
        return 0;
    self->sources[self->packs++] = (struct source){.fd = fd, .index_fd = index};
    return 1;
}

/* Begins to read the indexes of all packs, of so many bytes at most, in the background where there is a thread. */
void mulligan_copy_open(void *given, uint64_t limit, int threads) {
    struct copying *self = given;
    self->limit = limit, self->is_opened = 1;
    self->is_opening = start_threads(&self->opener, threads ? 1 : 0, open_all, self);
    if (!self->is_opening)
        open_all(self);
}

/* Whether a pack can be used, when it is known what is wanted. */
int mulligan_copy_uses(void *given, uint32_t at) {
    const struct copying *self = given;
    return at < self->packs && self->sources[at].count;
}

/* Finds in the packs what may be wanted: the objects of all files, and the trees. */
static void find_all(struct copying *self, struct adoption *from) {
    wait_for_opener(self);
    uint64_t most = (uint64_t)from->count + from->folders, slots = 16;
    while (slots < 2 * most)
        slots *= 2;
    self->mask = (uint32_t)slots - 1;
    self->wants = malloc(most * sizeof *self->wants), self->table = calloc(slots, sizeof *self->table);
    self->rows = malloc(most * sizeof *self->rows);
    if (!self->wants || !self->table || !self->rows)
        return;
    for (uint32_t at = 0; at < from->count; at++)
        from->entries[at].want = known(self, from->entries[at].head + 40);
    for (uint32_t at = 0; at < from->folders; at++)
        from->all[at].want = known(self, from->records + from->all[at].record + 40);
    for (uint32_t source = 0; source < self->packs; source++) {
        struct source *pack = &self->sources[source];
        for (uint32_t place = 0; place < pack->count; place++)
            pack->row[place] = *want_at(self, pack->index + PACK_INDEX_FIRST + OID_SIZE * (uint64_t)place);
    }
}

/* Wants the objects of all files that were found to be as the index says, and the trees, after the look; 0 where there was no room. */
int mulligan_copy_want(void *given, void *adoption) {
    struct copying *self = given;
    struct adoption *from = adoption;
    if (!self->wants || !self->table || !self->rows)
        return 0;
    for (uint32_t at = 0; at < from->count; at++) {
        struct tracked *entry = &from->entries[at];
        if (from->states[at] == PLAIN || from->states[at] == LOOKED_AT)
            want(&self->wants[entry->want - 1], PACK_BLOB, big(entry->head + 36));
        else
            entry->want = 0;
    }
    for (uint32_t at = 0; at < from->folders; at++)
        want(&self->wants[from->all[at].want - 1], PACK_TREE, from->all[at].tree_size);
    for (uint32_t source = 0; source < self->packs; source++) {
        const struct source *pack = &self->sources[source];
        for (uint32_t at = 0; at < pack->count; at++) {
            uint64_t begin = pack->offsets[pack->order[at]];
            uint64_t end = at + 1 < pack->count ? pack->offsets[pack->order[at + 1]] : pack->end;
            if (begin >= PACK_HEAD && begin < end && end <= pack->end && end - begin <= LONGEST)
                plan_row(self, source, (uint32_t)pack->order[at], end - begin);
            else
                pack->row[pack->order[at]] = 0;
        }
    }
    return 1;
}

/* -- copying -- */

/* Marks what a delta stands on, if that is wanted too: who takes the delta needs both. */
static void find_base(struct copying *self, const struct copied *row, const unsigned char *record) {
    const struct source *pack = &self->sources[row->source];
    uint32_t at = 0, low = 0, high = pack->count;
    while (at < row->length && record[at++] & 128)
        ;
    uint64_t distance = 0;
    for (int first = 1; at < row->length && distance < row->offset; first = 0) {
        distance = first ? record[at] & 127u : (distance + 1) << 7 | (record[at] & 127u);
        if (!(record[at++] & 128))
            break;
    }
    if (!distance || distance > row->offset)
        return;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pack->offsets[pack->order[middle]] < row->offset - distance)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < pack->count && pack->offsets[pack->order[low]] == row->offset - distance) {
        uint32_t slot = *want_at(self, pack->index + PACK_INDEX_FIRST + OID_SIZE * pack->order[low]);
        if (slot)
            __atomic_store_n(&self->wants[slot - 1].is_base, 1, __ATOMIC_RELAXED);
    }
}

/* Whether a record is what it should be; says so of one that is a delta. */
static int is_right(struct copying *self, struct copied *row, const unsigned char *record) {
    struct want *wanted = &self->wants[row->want];
    unsigned char header[16];
    size_t length = 0;
    uint64_t rest = wanted->size >> 4;
    header[length++] = (unsigned char)(wanted->kind << 4 | (wanted->size & 15) | (rest ? 128 : 0));
    for (; rest; rest >>= 7)
        header[length++] = (unsigned char)((rest & 127) | (rest >> 7 ? 128 : 0));
    if (row->length > length && !memcmp(record, header, length))
        return crc32_by(self->quick_crc, record, row->length) == row->crc;
    if ((record[0] >> 4 & 7) == PACK_DELTA)
        wanted->state = REFUSED_DELTA, find_base(self, row, record);
    return 0;
}

static int write_at(int fd, const unsigned char *data, size_t size, uint64_t at) {
    while (size) {
        ssize_t done = pwrite(fd, data, size, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done ? errno : EIO;
        data += done, at += (uint64_t)done, size -= (size_t)done;
    }
    return 0;
}

/* A new pack that is being filled: what was hashed and written, the next row, how many were not right, what was read last. */
struct filling {
    struct new_pack *pack;
    struct hashing hash;
    uint64_t at, begun, bytes;
    uint32_t row, bad;
    int is_second;
    unsigned char *buffer;
};

static void write_out(struct filling *self, const unsigned char *data, size_t size) {
    self->pack->error = write_at(self->pack->fd, data, size, self->at);
    self->at += size;
    if (self->at - self->begun >= WRITTEN) { /* what the disk has begun with, nobody waits for in the end */
        sync_file_range(self->pack->fd, (off_t)self->begun, (off_t)(self->at - self->begun), SYNC_FILE_RANGE_WRITE);
        self->begun = self->at;
    }
}

/* How many rows from one on stand one behind the other, and are read at once; their bytes. */
static uint32_t run_of(const struct copying *self, uint32_t from, uint32_t last, uint64_t *bytes) {
    uint32_t at = from;
    for (*bytes = 0; at < last; at++) {
        const struct copied *row = &self->rows[at];
        if (at > from && (row->is_bad || row->source != self->rows[from].source ||
                          row->offset != self->rows[from].offset + *bytes || *bytes + row->length > RUN))
            break;
        *bytes += row->length;
    }
    return at - from;
}

/* Begins with a pack, or once more: its first bytes say how many records follow. */
static void begin_pass(struct copying *self, struct filling *fill) {
    struct new_pack *pack = fill->pack;
    uint32_t good = 0;
    uint64_t bytes = PACK_HEAD + OID_SIZE;
    unsigned char head[PACK_HEAD] = "PACK\0\0\0\2";
    for (uint32_t at = pack->first; at < pack->last; at++)
        if (!self->rows[at].is_bad)
            good++, bytes += self->rows[at].length;
    /* All its room at once, which is found sooner than piece by piece; where there is none, writing will tell. */
    if (!fill->is_second)
        (void)!fallocate(pack->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    store_be32(head + 8, good);
    hash_begin(&fill->hash, self->quick);
    hash_more(&fill->hash, head, PACK_HEAD);
    fill->at = fill->begun = fill->bytes = 0, fill->row = pack->first, fill->bad = 0;
    write_out(fill, head, PACK_HEAD);
}

/* Reads and checks the next records that are not known to be bad; 0 where none is left. */
static int advance(struct copying *self, struct filling *fill) {
    struct new_pack *pack = fill->pack;
    while (fill->row < pack->last && self->rows[fill->row].is_bad)
        fill->row++;
    if (fill->row >= pack->last || pack->error)
        return 0;
    uint64_t place = 0;
    uint32_t count = run_of(self, fill->row, pack->last, &fill->bytes), end = fill->row + count;
    const struct copied *first = &self->rows[fill->row];
    int there = read_at(self->sources[first->source].fd, fill->buffer, fill->bytes, first->offset);
    for (; fill->row < end; place += self->rows[fill->row++].length) {
        struct copied *row = &self->rows[fill->row];
        row->is_bad = !there || !is_right(self, row, fill->buffer + place);
        row->to = (uint32_t)(fill->at + place);
        fill->bad += row->is_bad;
    }
    if (fill->bad)
        fill->bytes = 0; /* nothing more is written: it begins anew */
    return 1;
}

static const unsigned char *oid_of(const struct copying *self, uint32_t row) { return self->wants[self->rows[row].want].oid; }

/* Sorts rows by their ids; `other` has room for as many. Where they are in order, that is all that is found out. */
static void sort_by_oid(const struct copying *self, uint32_t *rows, uint32_t *other, uint32_t count) {
    uint32_t at = 1;
    while (at < count && memcmp(oid_of(self, rows[at - 1]), oid_of(self, rows[at]), OID_SIZE) <= 0)
        at++;
    if (at >= count)
        return;
    uint32_t half = count / 2, left = 0, right = half, to = 0;
    sort_by_oid(self, rows, other, half);
    sort_by_oid(self, rows + half, other, count - half);
    while (left < half || right < count) {
        int first = right == count || (left < half && memcmp(oid_of(self, rows[left]), oid_of(self, rows[right]), OID_SIZE) <= 0);
        other[to++] = rows[first ? left++ : right++];
    }
    memcpy(rows, other, count * sizeof *rows);
}

/* The rows of a new pack by their ids: those of one index stand there in order already. */
static uint32_t in_order(const struct copying *self, const struct new_pack *pack, uint32_t *rows, uint32_t *other) {
    uint32_t count = 0;
    for (uint32_t source = self->rows[pack->first].source; source <= self->rows[pack->last - 1].source; source++) {
        const struct source *from = &self->sources[source];
        for (uint32_t place = 0; place < from->count; place++) {
            uint32_t row = from->row[place];
            if (row > pack->first && row <= pack->last && !self->rows[row - 1].is_bad)
                rows[count++] = row - 1;
        }
    }
    sort_by_oid(self, rows, other, count);
    return count;
}

/* Makes the index of a new pack; 0 where there is no room. */
static int make_index(struct copying *self, struct new_pack *pack) {
    uint32_t most = pack->last - pack->first, *rows = malloc(2 * (size_t)most * sizeof *rows), count;
    struct hashing hash;
    pack->index = malloc(PACK_INDEX_FIRST + 28 * (size_t)most + 2 * OID_SIZE);
    if (!rows || !pack->index) {
        free(rows);
        return 0;
    }
    count = in_order(self, pack, rows, rows + most);
    memcpy(pack->index, "\377tOc\0\0\0\2", 8);
    unsigned char *oid = pack->index + PACK_INDEX_FIRST, *crc = oid + OID_SIZE * (size_t)count, *offset = crc + 4 * (size_t)count;
    uint32_t at = 0;
    for (int first = 0; first < 256; first++) {
        for (; at < count && oid_of(self, rows[at])[0] == first; at++) {
            memcpy(oid + OID_SIZE * (size_t)at, oid_of(self, rows[at]), OID_SIZE);
            store_be32(crc + 4 * (size_t)at, self->rows[rows[at]].crc);
            store_be32(offset + 4 * (size_t)at, self->rows[rows[at]].to);
        }
        store_be32(pack->index + 8 + 4 * first, at);
    }
    unsigned char *end = offset + 4 * (size_t)count;
    memcpy(end, pack->checksum, OID_SIZE);
    hash_begin(&hash, self->quick);
    hash_more(&hash, pack->index, (size_t)(end + OID_SIZE - pack->index));
    hash_end(&hash, end + OID_SIZE);
    pack->index_size = (uint64_t)(end + 2 * OID_SIZE - pack->index);
    free(rows);
    return 1;
}

/* Ends a pack whose records were all read. One that was not right makes all begin anew, once; returns whether it does. */
static int end_pass(struct copying *self, struct filling *fill) {
    struct new_pack *pack = fill->pack;
    uint32_t all = pack->last - pack->first, good = 0;
    if (fill->bad && !pack->error && !fill->is_second) {
        fill->is_second = 1;
        begin_pass(self, fill);
        return 1;
    }
    for (uint32_t at = pack->first; at < pack->last; at++)
        good += !self->rows[at].is_bad;
    if (pack->error || fill->bad || !good) {
        for (uint32_t at = pack->first; at < pack->last; at++)
            self->rows[at].is_bad = 1;
        return 0; /* nothing of it counts, and the caller throws it away */
    }
    hash_end(&fill->hash, pack->checksum);
    pack->error = write_at(pack->fd, pack->checksum, OID_SIZE, fill->at);
    pack->size = fill->at + OID_SIZE;
    if (!pack->error && good < all && ftruncate(pack->fd, (off_t)pack->size)) /* more was written the first time */
        pack->error = errno;
    if (!pack->error && !make_index(self, pack))
        pack->error = ENOMEM;
    for (uint32_t at = pack->first; at < pack->last; at++) {
        unsigned char *state = &self->wants[self->rows[at].want].state;
        if (!pack->error && !self->rows[at].is_bad)
            *state = TAKEN;
    }
    if (!pack->error)
        sync_file_range(pack->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return 0;
}

/* Reads on, in this pack or the next one; 0 where no pack is left. */
static int read_on(struct copying *self, struct filling *fill) {
    for (;;) {
        if (fill->pack && (advance(self, fill) || end_pass(self, fill)))
            return 1;
        uint32_t at = __atomic_fetch_add(&self->next, 1, __ATOMIC_RELAXED);
        fill->pack = at < self->made_count ? &self->made[at] : NULL;
        fill->bytes = 0, fill->is_second = 0;
        if (!fill->pack)
            return 0;
        begin_pass(self, fill);
    }
}

/* Says how many new packs there are to be, of at most so many bytes and rows, and a number that threads can share. */
uint32_t mulligan_copy_plan(void *given, uint64_t limit, uint32_t most, uint32_t parts) {
    struct copying *self = given;
    uint64_t bytes = 0, held = PACK_HEAD;
    for (uint32_t at = 0; at < self->rows_count; at++)
        bytes += self->rows[at].length;
    uint64_t packs = bytes / (limit - LONGEST) + 1;
    if (bytes >= 2 * WRITTEN && parts) {
        parts *= bytes >= 8 * WRITTEN ? 2 : 1; /* of many each fills two at a time */
        packs = (packs + parts - 1) / parts * parts;
    }
    uint64_t share = bytes / packs + 1;
    uint32_t room = (uint32_t)packs + self->rows_count / most + 2, first = 0;
    if (!self->rows_count || !(self->made = calloc(room, sizeof *self->made)))
        return 0;
    for (uint32_t at = 0; at < self->rows_count; at++) {
        held += self->rows[at].length;
        if (at + 1 == self->rows_count || at + 1 - first == most || held >= share + PACK_HEAD) {
            self->made[self->made_count++] = (struct new_pack){.first = first, .last = at + 1};
            first = at + 1, held = PACK_HEAD;
        }
    }
    return self->made_count;
}

/* Fills packs, two at a time where there are as many for everybody: two are hashed in little more time than one. */
static void *copy_work(void *given) {
    struct copying *self = given;
    struct filling one = {.buffer = malloc(LONGEST)}, other = {.buffer = malloc(LONGEST)};
    int is_pair = self->made_count >= 2 * self->workers && other.buffer;
    for (uint32_t at; !one.buffer && (at = __atomic_fetch_add(&self->next, 1, __ATOMIC_RELAXED)) < self->made_count;)
        self->made[at].error = ENOMEM;
    while (one.buffer) {
        int goes_on = read_on(self, &one);
        goes_on |= is_pair && read_on(self, &other);
        if (!goes_on)
            break;
        hash_both(&one.hash, one.buffer, (size_t)one.bytes, &other.hash, other.buffer, (size_t)other.bytes);
        if (one.bytes)
            write_out(&one, one.buffer, (size_t)one.bytes);
        if (other.bytes)
            write_out(&other, other.buffer, (size_t)other.bytes);
        one.bytes = other.bytes = 0;
    }
    free(one.buffer), free(other.buffer);
    return NULL;
}

/* Begins to fill the new packs, each into a file of its own, in the background where there are threads. */
void mulligan_copy_begin(void *given, const int *files, int threads) {
    struct copying *self = given;
    for (uint32_t at = 0; at < self->made_count; at++)
        self->made[at].fd = files[at];
    self->workers = threads > 1 ? (uint32_t)threads : 1;
    self->threads = start_threads(self->thread, threads, copy_work, self);
}

/* Helps with what is left, and returns when all is done; or leaves the rest. */
void mulligan_copy_end(void *given, int leave) {
    struct copying *self = given;
    wait_for_opener(self);
    if (leave)
        __atomic_store_n(&self->next, UINT32_MAX / 2, __ATOMIC_RELAXED);
    else
        copy_work(self);
    while (self->threads)
        pthread_join(self->thread[--self->threads], NULL);
}

/* Tells of a new pack: an error of the system, its size, its checksum, its index, the size of that. */
void mulligan_copy_made(void *given, uint32_t at, uint64_t *told) {
    const struct copying *self = given;
    const struct new_pack *pack = &self->made[at];
    told[0] = (uint64_t)pack->error, told[1] = pack->size, told[2] = (uint64_t)(uintptr_t)pack->checksum;
    told[3] = (uint64_t)(uintptr_t)pack->index, told[4] = pack->index_size;
}

/* Whether an object was copied. */
int mulligan_copy_has(void *given, const unsigned char *oid) {
    const struct copying *self = given;
    uint32_t slot = self->table ? *want_at(self, oid) : 0;
    return slot && self->wants[slot - 1].state == TAKEN;
}

/* Says of an object that somebody else copied it. */
void mulligan_copy_took(void *given, const unsigned char *oid) {
    struct copying *self = given;
    uint32_t slot = *want_at(self, oid);
    if (slot && self->wants[slot - 1].state != TORN)
        self->wants[slot - 1].state = TAKEN;
}

/* Tells which wanted objects are deltas, and what else their bases may be: ids, kinds and sizes of 29 bytes each; how many. */
uint32_t mulligan_copy_deltas(void *given, unsigned char *to) {
    const struct copying *self = given;
    uint32_t found = 0;
    for (uint32_t at = 0; at < self->count; at++) {
        const struct want *each = &self->wants[at];
        if (each->state == UNWANTED || (each->state != REFUSED_DELTA && !each->is_base))
            continue;
        if (to) {
            memcpy(to + 29 * (size_t)found, each->oid, OID_SIZE);
            to[29 * (size_t)found + 20] = each->kind;
            put_number(to + 29 * (size_t)found + 21, each->size);
        }
        found++;
    }
    return found;
}

/* Takes the proof from every file whose object was not copied; returns how many had one. */
uint32_t mulligan_copy_settle(void *given, void *adoption) {
    const struct copying *self = given;
    struct adoption *to = adoption;
    uint32_t refused = 0;
    for (uint32_t at = 0; at < to->count; at++) {
        uint32_t slot = to->entries[at].want;
        if (!slot || self->wants[slot - 1].state != TAKEN) {
            refused += to->states[at] != UNPROVEN;
            to->states[at] = UNPROVEN;
        }
    }
    return refused;
}

/* Tells which directories have trees that were not copied; returns how many. */
uint32_t mulligan_copy_trees(void *given, void *adoption, uint32_t *to) {
    const struct adoption *of = adoption;
    uint32_t found = 0;
    for (uint32_t at = 0; at < of->folders; at++)
        if (!mulligan_copy_has(given, of->records + of->all[at].record + 40))
            to[found++] = at;
    return found;
}
