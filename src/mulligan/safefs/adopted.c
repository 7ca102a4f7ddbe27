/*
 * The second half of `adopting.c`: records of what the index says, the look at the disk, trees, and what is left of all that
 * when it is known which objects were copied.
 */

/* -- records -- */

/* What `hinting.c` knows: what names that are not simply captured hold. */
static int learn_parts(struct adoption *self);
static int is_odd_file(const struct adoption *self, const struct tracked *entry);

static int is_word(const char *words, const char *name, size_t size) {
    for (; *words; words += strlen(words) + 1)
        if (strlen(words) == size && !memcmp(words, name, size))
            return 1;
    return 0;
}

static uint64_t as_number(const char *word, size_t size) {
    uint64_t value = 0;
    memcpy(&value, word, size);
    return value;
}

/* `secrets.is_plain_name`; asked of every file, so words of up to eight letters are compared as numbers. */
static int is_plain_name(const struct adoption *self, const char *name, uint32_t size) {
    const char *dot = memrchr(name, '.', size);
    size_t length = dot ? (size_t)(name + size - dot - 1) : 0;
    int begins_odd = strchr(".\xe2\xef", name[0]) != NULL;
    if (!length || begins_odd || length > 8)
        return length > 8 && !begins_odd && is_word(self->terms.plain, dot + 1, length);
    uint64_t word = as_number(dot + 1, length);
    for (uint32_t at = 0; at < self->endings; at++)
        if (self->ending[at] == word)
            return 1;
    return 0;
}

static void learn_endings(struct adoption *self) {
    for (const char *word = self->terms.plain; *word && self->endings < MOST_ENDINGS; word += strlen(word) + 1)
        if (strlen(word) <= 8)
            self->ending[self->endings++] = as_number(word, strlen(word));
}

/* `secrets.is_plain_place` */
static int is_plain_place(const struct terms *terms, const char *name, uint32_t size) {
    char lower[256];
    for (uint32_t at = 0; at < size; at++)
        lower[at] = name[at] >= 'A' && name[at] <= 'Z' ? (char)(name[at] + 32) : name[at];
    return !size || (name[0] != '.' && !is_word(terms->places, lower, size));
}

static void put_unproven(unsigned char *to) {
    put_number(to, 0);
    memset(to + 16, 255, 24);
}

/* Writes the stat fields to be expected of a file; returns what is known of it before anybody looked. */
static int expect(const struct adoption *self, const struct folder *folder, struct tracked *entry, unsigned char *to) {
    const struct terms *terms = &self->terms;
    const unsigned char *head = entry->head;
    uint32_t mode = big(head + 24), full = mode == 0100644 ? terms->file : mode == 0100755 ? terms->executable : 0;
    int64_t changed = (int64_t)big(head) * SECOND + big(head + 4);
    int64_t written = (int64_t)big(head + 8) * SECOND + big(head + 12), size = big(head + 36);
    put_number(to + 8, full ? full : mode | 0777);
    entry->is_plain = (unsigned char)is_plain_name(self, entry->name, entry->name_size);
    entry->is_odd = (unsigned char)(!entry->is_plain && is_odd_file(self, entry));
    int sure = changed < terms->latest && written < terms->latest && !(terms->since <= changed && changed < terms->boot);
    if (!full || !big(head + 4) || !sure || size > terms->largest) {
        put_unproven(to);
        return UNPROVEN;
    }
    put_number(to, terms->upper | big(head + 20)), put_number(to + 16, (uint64_t)size);
    put_number(to + 24, (uint64_t)written), put_number(to + 32, (uint64_t)changed);
    if (folder->flags & PLACE || size <= TINY || !entry->is_plain)
        return UNCLEAR;
    return PLAIN;
}

static unsigned char *stats_of(const struct adoption *self, const struct folder *folder) {
    return self->records + folder->record + folder->size - (uint64_t)folder->files * (STAT_SIZE + OID_SIZE);
}

static void put32(unsigned char *to, uint32_t value) {
    for (int at = 0; at < 4; at++)
        to[at] = (unsigned char)(value >> at * 8);
}

static void make_record(struct adoption *self, struct folder *folder) {
    unsigned char *record = self->records + folder->record, *at = record + HEAD_SIZE;
    memset(record, 0, HEAD_SIZE);
    memset(record + 8, 255, 16);
    record[80] = 0755 & 255, record[81] = 0755 >> 8;
    for (uint32_t file = 0; file < folder->files; file++) {
        const struct tracked *entry = &self->entries[folder->first + file];
        memcpy(at, entry->name, entry->name_size);
        at += entry->name_size;
        if (file + 1 < folder->files)
            *at++ = 0;
    }
    put32(record + 83, (uint32_t)(at - record - HEAD_SIZE));
    const unsigned char *dirs = at;
    for (uint32_t dir = 0; dir < folder->dirs; dir++) {
        const struct folder *below = &self->all[self->below[folder->first_dir + dir]];
        memcpy(at, below->name, below->name_size);
        at += below->name_size;
        if (dir + 1 < folder->dirs)
            *at++ = 0;
    }
    put32(record + 87, (uint32_t)(at - dirs)), put32(record + 95, folder->files), put32(record + 99, folder->dirs);
    unsigned char *oid = at + (uint64_t)folder->files * STAT_SIZE;
    for (uint32_t file = 0; file < folder->files; file++, at += STAT_SIZE, oid += OID_SIZE) {
        struct tracked *entry = &self->entries[folder->first + file];
        unsigned char *state = &self->states[folder->first + file];
        *state = (unsigned char)expect(self, folder, entry, at);
        uint64_t mode = number(at + 8, 8);
        if ((mode & S_IFMT) != S_IFLNK &&
            (mode & 07777) != (mode & 0100 ? self->terms.usual_executable : self->terms.usual_file))
            folder->flags |= ODD;
        memcpy(oid, entry->head + 40, OID_SIZE);
    }
}

static void *record_work(void *given) {
    struct adoption *self = given;
    for (;;) {
        uint32_t from = __atomic_fetch_add(&self->next, TASK, __ATOMIC_RELAXED);
        if (from >= self->folders)
            return NULL;
        for (uint32_t at = from; at < self->folders && at < from + TASK; at++)
            make_record(self, &self->all[at]);
    }
}

/* Makes a record of each directory, as it is expected, in as many threads beside the caller's; 0 where there is no room. */
int mulligan_adopt_expect(void *given, const struct terms *terms, int threads) {
    struct adoption *self = given;
    self->terms = *terms;
    learn_endings(self);
    if (!learn_parts(self))
        return 0;
    uint64_t trees = 0;
    for (uint32_t at = 0; at < self->folders; at++) {
        struct folder *folder = &self->all[at];
        folder->record = self->records_size;
        folder->size = HEAD_SIZE + (uint64_t)folder->files * (STAT_SIZE + OID_SIZE) + (folder->files ? folder->files - 1 : 0) +
                       (folder->dirs ? folder->dirs - 1 : 0);
        for (uint32_t file = 0; file < folder->files; file++)
            folder->size += self->entries[folder->first + file].name_size;
        for (uint32_t dir = 0; dir < folder->dirs; dir++)
            folder->size += self->all[self->below[folder->first_dir + dir]].name_size;
        self->records_size += folder->size;
        trees += folder->size + (uint64_t)folder->dirs * (OID_SIZE + 8);
        if (folder->size > UINT32_MAX)
            return 0;
    }
    self->records = malloc(self->records_size), self->states = malloc(self->count), self->trees = malloc(trees);
    if (!self->records || !self->states || !self->trees || !(self->paths = malloc(self->paths_size + 1)))
        return 0;
    char *path = self->paths;
    for (uint32_t at = 0; at < self->folders; at++) {
        struct folder *folder = &self->all[at];
        memcpy(path, folder->path, folder->path_size);
        path[folder->path_size] = 0;
        folder->path = path;
        path += folder->path_size + 1;
        if (!is_plain_place(terms, folder->name, folder->name_size))
            folder->flags |= PLACE;
    }
    self->threads = start_threads(self->thread, threads, record_work, self);
    record_work(self);
    while (self->threads)
        pthread_join(self->thread[--self->threads], NULL);
    self->next = 0;
    return 1;
}

/* -- looking -- */

struct listed {
    uint64_t ino;
    int64_t off;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* Lists a directory; says which of its names are known, and whether all of them are there and nothing else. */
static int list(struct adoption *self, struct folder *folder, int fd, unsigned char *buffer) {
    uint64_t found = 0, others = 0;
    /* btrfs lists only the names that were there when the directory was opened or last rewound. */
    if (lseek(fd, 0, SEEK_SET))
        return 0;
    for (;;) {
        long got = syscall(SYS_getdents64, fd, buffer, LISTED);
        if (got < 0)
            return 0;
        if (!got)
            break;
        for (long at = 0; at < got;) {
            const struct listed *each = (const struct listed *)(const void *)(buffer + at);
            const char *name = each->name;
            at += each->length;
            if (!strcmp(name, ".") || !strcmp(name, ".."))
                continue;
            if (!strcmp(name, ".gitignore"))
                folder->flags |= IGNORES;
            if (!strcmp(name, ".gitattributes"))
                folder->flags |= ATTRIBUTES;
            int64_t place = file_at(self, folder, name, (uint32_t)strlen(name));
            unsigned char *seen = place < 0 ? NULL : &self->entries[place].listed;
            if (!seen && (place = directory_at(self, folder, name, (uint32_t)strlen(name))) >= 0)
                seen = &self->all[place].listed;
            if (seen)
                found += !*seen, *seen = 1;
            else
                others++;
        }
    }
    return !others && found == (uint64_t)folder->files + folder->dirs;
}

/* Keeps how a file begins, for Python to judge; 0 where there is no room. */
static int keep_head(struct adoption *self, uint32_t at, const unsigned char *data, uint32_t size) {
    int kept = 0;
    pthread_mutex_lock(&self->lock);
    uint64_t needed = self->heads_size + 8 + size;
    if (needed > self->heads_room && needed <= HEADS_MOST) {
        uint64_t room = needed * 2 < HEADS_MOST ? needed * 2 + 65536 : HEADS_MOST;
        unsigned char *heads = realloc(self->heads, (size_t)room);
        if (heads)
            self->heads = heads, self->heads_room = room;
    }
    if (needed <= self->heads_room) {
        put32(self->heads + self->heads_size, at), put32(self->heads + self->heads_size + 4, size);
        memcpy(self->heads + self->heads_size + 8, data, size);
        self->heads_size = needed;
        kept = 1;
    }
    pthread_mutex_unlock(&self->lock);
    return kept;
}

/* Looks at how a file begins that is what was expected; returns what is known of it then. */
static int sniff(struct adoption *self, uint32_t at, int fd, const char *name, const unsigned char *want) {
    unsigned char head[SECRET_HEAD];
    struct stat st;
    int file = openat(fd, name, READ_FLAGS), state = UNPROVEN;
    if (file < 0)
        return UNPROVEN;
    if (!fstat(file, &st) && same_entry(&st, want)) {
        ssize_t size = pread(file, head, sizeof head, 0);
        if (size >= 0 && !may_be_secret(head, (size_t)size))
            state = LOOKED_AT;
        else if (size >= 0 && keep_head(self, at, head, (uint32_t)size))
            state = TO_JUDGE;
    }
    close(file);
    return state;
}

static void look_at_folder(struct adoption *self, struct folder *folder, int fd, unsigned char *buffer) {
    struct stat st;
    int64_t modified, changed;
    if (fd < 0 || fstat(fd, &st) || st.st_dev != self->device || !in_ns(st.st_mtim, &modified) ||
        !in_ns(st.st_ctim, &changed)) {
        memset(self->states + folder->first, UNPROVEN, folder->files);
        return;
    }
    put_number(folder->own, (uint64_t)st.st_ino), put_number(folder->own + 8, (uint64_t)modified);
    put_number(folder->own + 16, (uint64_t)changed);
    folder->perm = (uint16_t)(st.st_mode & 07777);
    int whole = list(self, folder, fd, buffer);
    const unsigned char *want = stats_of(self, folder);
    for (uint32_t at = folder->first; at < folder->first + folder->files; at++, want += STAT_SIZE) {
        unsigned char *state = &self->states[at];
        char name[256];
        memcpy(name, self->entries[at].name, self->entries[at].name_size);
        name[self->entries[at].name_size] = 0;
        if (*state == PLAIN && (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) || !same_entry(&st, want)))
            *state = UNPROVEN;
        else if (*state == UNCLEAR)
            *state = (unsigned char)sniff(self, at, fd, name, want);
    }
    folder->flags |= (unsigned char)(SEEN | (whole ? WHOLE : 0));
}

static void *adopt_work(void *given) {
    struct adoption *self = given;
    uint64_t buffer[LISTED / 8];
    for (;;) {
        uint32_t from = __atomic_fetch_add(&self->next, TASK, __ATOMIC_RELAXED);
        if (from >= self->folders)
            return NULL;
        struct open_directory above[DEEPEST];
        int depth = 0;
        const char *before = "";
        for (uint32_t at = from; at < self->folders && at < from + TASK; at++) {
            struct folder *folder = &self->all[at];
            while (depth && !is_below(folder->path, before, above[depth - 1].length))
                close(above[--depth].fd);
            int fd = descend(self->root, folder->path, above, &depth), own = -1;
            before = folder->path;
            /* The root is the caller's, and is read from its beginning, whoever read it before. */
            if (!folder->path_size)
                fd = own = openat(self->root, ".", FLAGS);
            look_at_folder(self, folder, fd, (unsigned char *)buffer);
            if (own >= 0)
                close(own);
        }
        while (depth)
            close(above[--depth].fd);
    }
}

/* -- trees -- */

static uint64_t put_line(unsigned char *to, const char *mode, const char *name, uint32_t size, const unsigned char *oid) {
    size_t length = strlen(mode);
    memcpy(to, mode, length);
    memcpy(to + length, name, size);
    to[length + size] = 0;
    memcpy(to + length + size + 1, oid, OID_SIZE);
    return length + size + 1 + OID_SIZE;
}

/* Whether a file's name stands before a directory's in a tree, where a directory's has a slash behind it. */
static int stands_before(const struct tracked *file, const struct folder *dir) {
    uint32_t least = file->name_size < dir->name_size ? file->name_size : dir->name_size;
    int found = memcmp(file->name, dir->name, least);
    if (found)
        return found < 0;
    unsigned char one = file->name_size > least ? (unsigned char)file->name[least] : 0;
    unsigned char other = dir->name_size > least ? (unsigned char)dir->name[least] : '/';
    return one < other;
}

static const char *mode_text(const unsigned char *stat) {
    uint64_t mode = number(stat + 8, 8);
    return (mode & S_IFMT) == S_IFLNK ? "120000 " : mode & 0100 ? "100755 " : "100644 ";
}

/* Directories are sorted by their names alone, and stand in a tree by their names with a slash. */
static void sort_for_tree(const struct adoption *self, uint32_t *below, uint32_t count) {
    for (uint32_t at = 1; at < count; at++) {
        uint32_t moved = below[at], to = at;
        const struct folder *here = &self->all[moved];
        for (; to; below[to] = below[to - 1], to--) {
            const struct folder *before = &self->all[below[to - 1]];
            uint32_t least = before->name_size < here->name_size ? before->name_size : here->name_size;
            /* Of two that differ where both still have letters the order stays as it is. */
            if (memcmp(before->name, here->name, least) || here->name_size <= least ||
                (unsigned char)here->name[least] > '/')
                break;
        }
        below[to] = moved;
    }
}

static void make_tree(struct adoption *self, struct folder *folder) {
    const unsigned char *stat = stats_of(self, folder);
    const unsigned char *oid = stat + (uint64_t)folder->files * STAT_SIZE;
    uint32_t *below = self->in_trees + folder->first_dir, file = 0, dir = 0;
    unsigned char *begin = self->trees + self->trees_size, *to = begin;
    sort_for_tree(self, below, folder->dirs);
    while (file < folder->files || dir < folder->dirs) {
        const struct tracked *entry = &self->entries[folder->first + file];
        const struct folder *under = dir < folder->dirs ? &self->all[below[dir]] : NULL;
        if (file < folder->files && (!under || stands_before(entry, under))) {
            to += put_line(to, mode_text(stat), entry->name, entry->name_size, oid);
            file++, stat += STAT_SIZE, oid += OID_SIZE;
        } else {
            to += put_line(to, "40000 ", under->name, under->name_size, self->records + under->record + 40);
            dir++;
        }
    }
    char header[32];
    int length = snprintf(header, sizeof header, "tree %llu", (unsigned long long)(to - begin));
    folder->tree = self->trees_size, folder->tree_size = (uint64_t)(to - begin);
    self->trees_size += folder->tree_size;
    sha1_of((unsigned char *)header, (size_t)length + 1, begin, (size_t)folder->tree_size, self->records + folder->record + 40,
            self->quick);
}

/* What `copying.c` does with all ids. */
static void find_all(struct copying *copying, struct adoption *self);

/* Makes the tree of each directory, from below, if nobody has begun with it. */
static void make_trees(struct adoption *self) {
    if (__atomic_exchange_n(&self->has_trees, 1, __ATOMIC_RELAXED))
        return;
    for (uint32_t at = self->folders; at-- > 0;)
        make_tree(self, &self->all[at]);
    find_all(self->copying, self);
}

static void *trees_and_look(void *given) {
    make_trees(given);
    return adopt_work(given);
}

/*
 * Begins to look and to make the trees, in the background where there are threads. The root stays open until `mulligan_adopt_wait`. Who
 * copies is told what may be wanted.
 */
int mulligan_adopt_look(void *given, void *copying, int root, int threads) {
    struct adoption *self = given;
    struct stat st;
    if (fstat(root, &st))
        return 0;
    self->root = root, self->device = st.st_dev, self->is_looking = 1, self->copying = copying;
    self->threads = start_threads(self->thread, threads, trees_and_look, self);
    return 1;
}

void mulligan_adopt_wait(void *given) {
    struct adoption *self = given;
    if (self->is_looking) {
        adopt_work(self);
        make_trees(self);
    }
    while (self->threads)
        pthread_join(self->thread[--self->threads], NULL);
    self->is_looking = 0;
}

/* -- telling -- */

/* Where things are: records, their bytes, paths, their bytes, states, heads, their bytes, trees, names, their bytes. */
void mulligan_adopt_told(void *given, uint64_t *told) {
    const struct adoption *self = given;
    told[0] = (uint64_t)(uintptr_t)self->records, told[1] = self->records_size;
    told[2] = (uint64_t)(uintptr_t)self->paths, told[3] = self->paths_size;
    told[4] = (uint64_t)(uintptr_t)self->states;
    told[5] = (uint64_t)(uintptr_t)self->heads, told[6] = self->heads_size;
    told[7] = (uint64_t)(uintptr_t)self->trees;
    told[8] = (uint64_t)(uintptr_t)self->names, told[9] = self->names_size;
}

/* Of each directory: record, its size, first file, files, flags, tree, its size. */
void mulligan_adopt_folders(void *given, uint64_t *rows) {
    const struct adoption *self = given;
    for (uint32_t at = 0; at < self->folders; at++, rows += 7) {
        const struct folder *folder = &self->all[at];
        rows[0] = folder->record, rows[1] = folder->size, rows[2] = folder->first, rows[3] = folder->files;
        rows[4] = folder->flags, rows[5] = folder->tree, rows[6] = folder->tree_size;
    }
}

/* An entry by its place in the order of directories: the path of its directory, its name, its head. */
void mulligan_adopt_entry(void *given, uint32_t at, uint64_t *told) {
    const struct adoption *self = given;
    if (at >= self->count)
        return;
    const struct tracked *entry = &self->entries[at];
    const struct folder *folder = &self->all[entry->folder];
    told[0] = (uint64_t)(uintptr_t)folder->path, told[1] = folder->path_size;
    told[2] = (uint64_t)(uintptr_t)entry->name, told[3] = entry->name_size;
    told[4] = (uint64_t)(uintptr_t)entry->head;
}

/*
 * Completes the records: what proves nothing after all is unproven, and each directory has its own fields, key and flags.
 * `given_flags` are Python's: 1 for one that may be trusted, 8 for one that leans on the index; keys are 16 bytes each, or one
 * for all. A directory that changed after `latest` is not remembered. `same` says which are as they were.
 */
void mulligan_adopt_finish(void *given, const unsigned char *given_flags, const unsigned char *keys, int one_key,
                           int64_t latest, int64_t latest_coarse, unsigned char *same) {
    struct adoption *self = given;
    for (uint32_t at = 0; at < self->folders; at++) {
        struct folder *folder = &self->all[at];
        unsigned char *record = self->records + folder->record, *stat = stats_of(self, folder);
        int is_same = 1;
        for (uint32_t file = folder->first; file < folder->first + folder->files; file++, stat += STAT_SIZE)
            if (self->states[file] == UNPROVEN)
                put_unproven(stat), is_same = 0;
        same[at] = 0;
        if (at && (folder->flags & SEEN ? folder->perm : 0755) != self->terms.usual_directory)
            self->all[folder->above].flags |= ODD;
        if (!(folder->flags & SEEN))
            continue;
        int trusted = folder->flags & WHOLE && given_flags[at] & TRUSTED;
        int64_t changed = (int64_t)number(folder->own + 16, 8);
        memcpy(record + 24, keys + (one_key ? 0 : (size_t)at * 16), 16);
        record[80] = (unsigned char)folder->perm, record[81] = (unsigned char)(folder->perm >> 8);
        record[82] = (unsigned char)((trusted ? TRUSTED : 0) | (folder->flags & IGNORES ? HAS_IGNORES : 0) |
                                     (given_flags[at] & LEANS));
        if (trusted && changed < (changed % SECOND ? latest : latest_coarse)) {
            memcpy(record, folder->own, 24);
            same[at] = (unsigned char)is_same;
        }
    }
}
