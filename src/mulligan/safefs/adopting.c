/*
 * The optional compiled part: what git's index says of a workspace, as records, and whether the disk says the same.
 *
 * The same work as `scan/expected.py` and `scan/adopting.py` do for a plain index; the Python there is the truth that this is
 * tested against, and whatever is not plain (flags of an entry, a submodule, names out of order, a file and a directory of one
 * name) is left to it. The index is anybody's: no length in it is believed. Rules are not decided here. Files whose
 * names are not those of source code are opened and their first bytes looked at; what these may mean, Python says.
 * Nothing is written anywhere but to memory.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>

#define INDEX_HEAD 62
#define INDEX_TRAILER 20
#define INDEX_MOST 1000000
#define NAMES_MOST (256u << 20)
#define PATHS_MOST (64u << 20) /* `scan/expected.py` says why */
#define HEADS_MOST (64u << 20) /* what begins like a secret beyond that is read as a whole */
#define TINY 256
#define MOST_ENDINGS 128
#define SECOND INT64_C(1000000000)
#define LISTED 32768
#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* Of a file: it proves nothing, its name says that it is no secret, it was looked at, its first bytes are for Python to judge. */
enum { UNPROVEN, PLAIN, LOOKED_AT, TO_JUDGE, UNCLEAR };
/* Of a directory: it lies where files are secret for being there, its permission bits are not the usual ones or those of a
   file in it; it was seen, holds what it should, and these files. */
enum { PLACE = 2, ODD = 4, SEEN = 8, WHOLE = 16, IGNORES = 32, ATTRIBUTES = 64 };

struct tracked {
    const unsigned char *head; /* in the index */
    const char *name;
    uint32_t name_size, folder;
    uint32_t want; /* the place of its object among those that are wanted, and one; 0 for none */
    unsigned char listed, is_plain, is_odd; /* by its name: source code, or something to be decided over */
};

struct folder {
    const char *path, *name;
    uint32_t path_size, name_size, above, files, first, dirs, first_dir, order;
    uint64_t record, size; /* where its record is */
    uint64_t tree, tree_size;
    unsigned char flags, listed;
    unsigned char own[24];
    uint16_t perm;
    uint32_t want; /* of its tree, as for a file */
};

/* What Python tells: `since` and `boot` are the times between which nothing is sure. */
struct terms {
    uint64_t upper;
    int64_t latest, since, boot, largest;
    uint32_t file, executable, usual_file, usual_executable, usual_directory;
    /* Words, each with a NUL behind it, and one more at the end. */
    const char *plain, *places, *built_in, *odd_parts, *odd_heads;
};

struct adoption {
    const unsigned char *data;
    uint64_t size;
    uint32_t count, folders, room, attributes; /* `attributes`: whether there are any */
    struct tracked *entries; /* by the index's order, then by directories */
    struct folder *all;      /* as they are met, then in the order of a walk */
    uint32_t *below;         /* of each directory those in it, by their names */
    uint32_t *in_trees;      /* and as they stand in its tree */
    struct parts *parts;
    unsigned char *states, *records, *trees;
    uint64_t records_size, trees_size;
    char *names; /* of all files, whole, in the index's order, each with a NUL behind it */
    char *paths;
    uint64_t names_size, paths_size;
    struct terms terms;
    uint64_t ending[MOST_ENDINGS];
    uint32_t endings;
    int root, quick, threads, has_trees, is_right;
    struct copying *copying; /* who is told what may be wanted, as soon as that is known */
    dev_t device;
    uint32_t next;
    pthread_t thread[MOST_THREADS];
    int is_looking;
    pthread_mutex_t lock;
    unsigned char *heads; /* what is to be judged: the place of a file, a length and so many bytes */
    uint64_t heads_size, heads_room;
};

static uint32_t big(const unsigned char *at) { return load_be32(at); }

/* Helps to look at what is left, where that was begun, and waits until all is done. */
void mulligan_adopt_wait(void *given);

/* -- the index -- */

static int is_name(const char *path, size_t size) {
    /* No empty part, none that is a dot or two, none that is too long for a file system. */
    size_t begin = 0;
    for (size_t at = 0; at <= size; at++) {
        if (at < size && path[at] != '/')
            continue;
        size_t length = at - begin;
        if (!length || length > 255 || (path[begin] == '.' && (length == 1 || (length == 2 && path[begin + 1] == '.'))))
            return 0;
        begin = at + 1;
    }
    return 1;
}

static int follows(const char *path, size_t size, const char *before, size_t before_size) {
    size_t least = size < before_size ? size : before_size;
    int found = memcmp(before, path, least);
    return found < 0 || (!found && before_size < size);
}

/* Takes the name of an entry from a version 4 index, where it is the one before with another end; returns what follows it. */
static uint64_t unfold(struct adoption *self, uint64_t at, uint64_t end, const char *before, uint32_t *size) {
    uint64_t strip = 0;
    for (int first = 1;; first = 0) {
        if (at >= end || strip > UINT32_MAX)
            return 0;
        unsigned char byte = self->data[at++];
        strip = first ? byte & 127u : (strip + 1) << 7 | (byte & 127u);
        if (!(byte & 128))
            break;
    }
    const unsigned char *stop = memchr(self->data + at, 0, (size_t)(end - at));
    if (!stop || strip > *size)
        return 0;
    uint64_t kept = *size - strip, added = (uint64_t)(stop - (self->data + at));
    if (kept + added > UINT16_MAX || self->names_size + kept + added + 1 > NAMES_MOST)
        return 0;
    char *name = self->names + self->names_size;
    memmove(name, before, (size_t)kept);
    memcpy(name + kept, self->data + at, (size_t)added);
    name[kept + added] = 0;
    self->names_size += kept + added + 1;
    *size = (uint32_t)(kept + added);
    return at + added + 1;
}

static int is_usual_mode(uint32_t mode) { return mode == 0100644 || mode == 0100755 || mode == 0120000; }

static int read_entries(struct adoption *self, uint32_t version) {
    uint64_t at = 12, end = self->size - INDEX_TRAILER;
    const char *before = "";
    uint32_t before_size = 0;
    for (uint32_t number = 0; number < self->count; number++) {
        struct tracked *entry = &self->entries[number];
        if (end - at < INDEX_HEAD + 2)
            return 0;
        entry->head = self->data + at;
        uint32_t flags = (uint32_t)entry->head[60] << 8 | entry->head[61], size = before_size;
        if (flags >> 12 || !is_usual_mode(big(entry->head + 24)))
            return 0;
        if (version == 4) {
            if (!(at = unfold(self, at + INDEX_HEAD, end, before, &size)))
                return 0;
        } else {
            const unsigned char *name = entry->head + INDEX_HEAD;
            const unsigned char *stop = memchr(name, 0, (size_t)(end - at - INDEX_HEAD));
            if (!stop || stop - name > UINT16_MAX)
                return 0;
            size = (uint32_t)(stop - name);
            if ((size < 0xfff ? size : 0xfff) != (flags & 0xfff))
                return 0;
            memcpy(self->names + self->names_size, name, size + 1);
            self->names_size += size + 1;
            at += (INDEX_HEAD + size + 8) & ~UINT64_C(7);
        }
        entry->name = self->names + self->names_size - size - 1;
        if (at > end || !is_name(entry->name, size) || !follows(entry->name, size, before, before_size))
            return 0;
        entry->name_size = before_size = size;
        before = entry->name;
    }
    while (end - at >= 8) { /* extensions: one that has to be understood is for Python */
        if (self->data[at] >= 0x60 || big(self->data + at + 4) > end - at - 8)
            return 0;
        at += 8 + big(self->data + at + 4);
    }
    return at == end;
}

/* -- directories -- */

static uint32_t new_folder(struct adoption *self, uint32_t above, const char *path, uint32_t size) {
    self->paths_size += size ? size + 1 : 0;
    if (self->paths_size > PATHS_MOST || self->folders > INDEX_MOST)
        return UINT32_MAX;
    if (self->folders == self->room) {
        uint32_t room = self->room * 2;
        struct folder *all = realloc(self->all, room * sizeof *all);
        if (!all)
            return UINT32_MAX;
        self->all = all, self->room = room;
    }
    struct folder *made = &self->all[self->folders];
    memset(made, 0, sizeof *made);
    made->path = path, made->path_size = size, made->above = above;
    const char *slash = size ? memrchr(path, '/', size) : NULL;
    made->name = slash ? slash + 1 : path;
    made->name_size = size - (uint32_t)(made->name - path);
    if (size)
        self->all[above].dirs++;
    return self->folders++;
}

/* Finds the directory of each entry: what is below one stands together in the index. Leaves their names. */
static int find_folders(struct adoption *self) {
    uint32_t here = 0;
    self->room = 1024;
    if (!(self->all = malloc(self->room * sizeof *self->all)) || new_folder(self, 0, "", 0))
        return 0;
    for (uint32_t at = 0; at < self->count; at++) {
        struct tracked *entry = &self->entries[at];
        const char *path = entry->name;
        uint32_t size = entry->name_size;
        for (;;) { /* upwards, to what the path is below */
            uint32_t known = self->all[here].path_size;
            if (!known || (known < size && path[known] == '/' && !memcmp(self->all[here].path, path, known)))
                break;
            here = self->all[here].above;
        }
        uint32_t begin = self->all[here].path_size ? self->all[here].path_size + 1 : 0;
        for (const char *slash; (slash = memchr(path + begin, '/', size - begin));) {
            here = new_folder(self, here, path, (uint32_t)(slash - path));
            if (here == UINT32_MAX)
                return 0;
            begin = (uint32_t)(slash - path) + 1;
        }
        entry->folder = here;
        entry->name = path + begin, entry->name_size = size - begin;
        self->attributes |= entry->name_size == 14 && !memcmp(entry->name, ".gitattributes", 14);
        self->all[here].files++;
    }
    return 1;
}

static int by_text(const char *one, uint32_t one_size, const char *other, uint32_t other_size) {
    int found = memcmp(one, other, one_size < other_size ? one_size : other_size);
    return found ? found : (one_size > other_size) - (one_size < other_size);
}

/* Sorts the directories in one by their names. They stand as the index has them, by their names with a slash behind, so that
   only a name and those that begin with it may have to change places: 255 times each at most. */
static void sort_below(const struct adoption *self, uint32_t *below, uint32_t count) {
    for (uint32_t at = 1; at < count; at++) {
        uint32_t moved = below[at], to = at;
        const struct folder *here = &self->all[moved];
        for (; to; below[to] = below[to - 1], to--) {
            const struct folder *before = &self->all[below[to - 1]];
            if (by_text(before->name, before->name_size, here->name, here->name_size) < 0)
                break;
        }
        below[to] = moved;
    }
}

/* Brings directories into the order of a walk, and entries to their directories. */
static int order_folders(struct adoption *self) {
    uint32_t folders = self->folders, *stack = malloc((folders + 1) * sizeof *stack), depth = 0, order = 0;
    struct folder *all = malloc(folders * sizeof *all);
    struct tracked *entries = malloc(self->count * sizeof *entries);
    self->below = malloc((folders + 1) * sizeof *self->below), self->in_trees = malloc((folders + 1) * sizeof *self->below);
    if (!stack || !all || !entries || !self->below || !self->in_trees) {
        free(stack), free(all), free(entries);
        return 0;
    }
    uint32_t dirs = 0, files = 0;
    for (uint32_t at = 0; at < folders; at++) {
        self->all[at].first_dir = dirs;
        dirs += self->all[at].dirs;
    }
    for (uint32_t at = folders; at-- > 1;) /* the last free place of each; filled from behind */
        self->below[self->all[self->all[at].above].first_dir + --self->all[self->all[at].above].dirs] = at;
    for (uint32_t at = 1; at < folders; at++)
        self->all[self->all[at].above].dirs++;
    for (uint32_t at = 0; at < folders; at++)
        sort_below(self, self->below + self->all[at].first_dir, self->all[at].dirs);
    for (stack[depth++] = 0; depth;) {
        uint32_t here = stack[--depth];
        struct folder *folder = &self->all[here];
        folder->order = order, folder->first = files;
        files += folder->files;
        all[order++] = *folder;
        for (uint32_t at = folder->dirs; at-- > 0;)
            stack[depth++] = self->below[folder->first_dir + at];
    }
    for (uint32_t at = 0; at < dirs; at++)
        self->in_trees[at] = self->below[at] = self->all[self->below[at]].order;
    for (uint32_t at = 0; at < folders; at++)
        all[at].above = self->all[all[at].above].order, all[at].files = 0;
    for (uint32_t at = 0; at < self->count; at++) {
        uint32_t there = self->all[self->entries[at].folder].order;
        struct tracked *moved = &entries[all[there].first + all[there].files++];
        *moved = self->entries[at];
        moved->folder = there;
    }
    free(stack), free(self->all), free(self->entries);
    self->all = all, self->entries = entries, self->room = folders;
    return 1;
}

/* The place of a file in its directory by its name, -1 for none. */
static int64_t file_at(const struct adoption *self, const struct folder *folder, const char *name, uint32_t size) {
    uint32_t low = folder->first, high = low + folder->files;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int found = by_text(self->entries[middle].name, self->entries[middle].name_size, name, size);
        if (!found)
            return middle;
        if (found < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static int64_t directory_at(const struct adoption *self, const struct folder *folder, const char *name, uint32_t size) {
    uint32_t low = folder->first_dir, high = low + folder->dirs;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct folder *there = &self->all[self->below[middle]];
        int found = by_text(there->name, there->name_size, name, size);
        if (!found)
            return self->below[middle];
        if (found < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

void mulligan_adopt_free(void *given) {
    struct adoption *self = given;
    mulligan_adopt_wait(self);
    free(self->entries), free(self->all), free(self->below), free(self->states), free(self->records), free(self->trees);
    free(self->names), free(self->paths), free(self->heads), free(self->in_trees), free(self->parts);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void *check_sum(void *given) {
    struct adoption *self = given;
    unsigned char digest[OID_SIZE];
    sha1_of(self->data, 0, self->data, (size_t)(self->size - INDEX_TRAILER), digest, self->quick);
    self->is_right = !memcmp(digest, self->data + self->size - INDEX_TRAILER, OID_SIZE);
    return NULL;
}

/*
 * Takes an index apart, and checks its sum, beside that where there is a thread; NULL where it is not a plain one, which is for Python
 * then. The bytes stay the caller's. Tells how many files and directories there are, and whether some have attributes.
 */
void *mulligan_adopt(const unsigned char *data, uint64_t size, int threads, uint32_t *told) {
    if (size < 12 + INDEX_TRAILER || memcmp(data, "DIRC", 4))
        return NULL;
    uint32_t version = big(data + 4), count = big(data + 8);
    if (version < 2 || version > 4 || !count || count > INDEX_MOST || (uint64_t)count * (INDEX_HEAD + 2) > size)
        return NULL;
    struct adoption *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->data = data, self->size = size, self->count = count, self->quick = has_sha_ni();
    pthread_mutex_init(&self->lock, NULL);
    self->entries = calloc(count, sizeof *self->entries);
    /* Names that are not cut short are no longer than the index; of the others' room only what is used is touched. */
    self->names = malloc(version == 4 ? NAMES_MOST : (size_t)size);
    int beside = start_threads(self->thread, threads ? 1 : 0, check_sum, self);
    int known = self->entries && self->names && read_entries(self, version) && find_folders(self) && order_folders(self);
    if (beside)
        pthread_join(self->thread[0], NULL);
    else
        check_sum(self);
    if (!known || !self->is_right) {
        mulligan_adopt_free(self);
        return NULL;
    }
    for (uint32_t at = 1; at < self->folders; at++) {
        const struct folder *here = &self->all[at];
        if (file_at(self, &self->all[here->above], here->name, here->name_size) >= 0) {
            mulligan_adopt_free(self);
            return NULL;
        }
    }
    told[0] = count, told[1] = self->folders, told[2] = self->attributes;
    return self;
}
