/*
 * The third part of `adopting.c`: which names rules, or what is known of secrets, could mean at all (`scan/hints.py`).
 *
 * Python decides over what is found here, and over nothing else: a name too many costs time, and one too few is an error. Words
 * are anybody's, as names are; only their number costs anything.
 */

/* Words to be found, as wholes, beginnings or ends of names. */
struct words {
    uint64_t seed;
    uint32_t mask;
    const char **slots;
    uint32_t lengths;
    unsigned char length[256], edge[256][32]; /* those that there are, and by length the first or last bytes of them */
};

/* What Python tells; words have a NUL behind each, and one more at the end. */
struct hints {
    const char *names, *heads, *tails, *prefixes;
    uint32_t every;
};

struct hinted {
    const struct hints *hints;
    struct words names, heads, tails;
};

static uint32_t hash_text(uint64_t seed, const char *text, size_t size) {
    uint64_t hash = seed ^ size, part;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&part, text, 8);
        hash = (hash ^ part) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    }
    part = as_number(text, size);
    hash = ((hash ^ part) + seed) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((hash ^ hash >> 32) * UINT64_C(0x94d049bb133111eb) >> 32);
}

static const char **word_slot(const struct words *self, const char *text, size_t size) {
    for (uint32_t at = hash_text(self->seed, text, size) & self->mask;; at = (at + 1) & self->mask) {
        const char **slot = &self->slots[at];
        if (!*slot || (!strncmp(*slot, text, size) && !(*slot)[size]))
            return slot;
    }
}

/* Takes words in, by their first or last bytes; 0 where there is no room. */
static int learn_words(struct words *self, const char *words, uint64_t seed, int by_last) {
    uint64_t count = 0, slots = 16;
    memset(self, 0, sizeof *self);
    for (const char *word = words; *word; word += strlen(word) + 1)
        count++;
    while (slots < 2 * count)
        slots *= 2;
    if (slots > UINT32_MAX || !(self->slots = calloc(slots, sizeof *self->slots)))
        return 0;
    self->seed = seed, self->mask = (uint32_t)slots - 1;
    for (size_t size; (size = strlen(words)); words += size + 1) {
        if (size > 255)
            continue; /* no name is as long */
        unsigned char edge = (unsigned char)words[by_last ? size - 1 : 0];
        if (!memchr(self->length, (int)size, self->lengths))
            self->length[self->lengths++] = (unsigned char)size;
        self->edge[size][edge / 8] |= (unsigned char)(1 << edge % 8);
        *word_slot(self, words, size) = words;
    }
    return 1;
}

static int is_one(const struct words *self, const char *text, size_t size, unsigned char edge) {
    return self->edge[size][edge / 8] >> edge % 8 & 1 && *word_slot(self, text, size);
}

static int is_hinted(const struct hinted *self, const char *name, uint32_t size) {
    unsigned char first = (unsigned char)name[0], last = (unsigned char)name[size - 1];
    if (is_one(&self->names, name, size, first))
        return 1;
    for (uint32_t at = 0; at < self->heads.lengths; at++)
        if (self->heads.length[at] <= size && is_one(&self->heads, name, self->heads.length[at], first))
            return 1;
    for (uint32_t at = 0; at < self->tails.lengths; at++) {
        uint32_t length = self->tails.length[at];
        if (length <= size && is_one(&self->tails, name + size - length, length, last))
            return 1;
    }
    return 0;
}

/* Whether paths with a beginning lie in a directory or below it, or it lies where they do. */
static int is_on_the_way(const struct hints *hints, const struct folder *folder) {
    for (const char *prefix = hints->prefixes; *prefix; prefix += strlen(prefix) + 1) {
        size_t size = strlen(prefix), least = size < folder->path_size ? size : folder->path_size;
        if (!memcmp(prefix, folder->path, least) &&
            (size <= folder->path_size || !folder->path_size || prefix[folder->path_size] == '/'))
            return 1;
    }
    return 0;
}

/* -- parts of names -- */

#define MOST_PARTS 256

/* Words that have two letters or more and no capital ones, by their first letters. */
struct parts {
    unsigned char pairs[65536 / 8]; /* how they begin */
    const char *word[MOST_PARTS];
    unsigned char length[MOST_PARTS];
    uint16_t first[257];
};

static int learn_parts(struct adoption *self) {
    struct parts *parts = self->parts = calloc(1, sizeof *parts);
    uint16_t count = 0;
    for (int letter = 0; parts && letter < 256; letter++) {
        parts->first[letter] = count;
        for (const char *word = self->terms.odd_parts; *word; word += strlen(word) + 1) {
            unsigned pair = (unsigned)(unsigned char)word[0] << 8 | (unsigned char)word[1];
            if (pair >> 8 != (unsigned)letter)
                continue;
            if (count == MOST_PARTS || strlen(word) > 255)
                return 0;
            parts->pairs[pair / 8] |= (unsigned char)(1 << pair % 8);
            parts->word[count] = word, parts->length[count++] = (unsigned char)strlen(word);
        }
        parts->first[letter + 1] = count;
    }
    return parts != NULL;
}

static int holds_part(const struct parts *self, const char *name, uint32_t size) {
    unsigned char lower[257];
    for (uint32_t at = 0; at < size; at++)
        lower[at] = (unsigned char)(name[at] >= 'A' && name[at] <= 'Z' ? name[at] + 32 : name[at]);
    for (uint32_t at = 0; at + 1 < size; at++) {
        unsigned pair = (unsigned)lower[at] << 8 | lower[at + 1];
        if (!(self->pairs[pair / 8] >> pair % 8 & 1))
            continue;
        for (uint32_t word = self->first[lower[at]]; word < self->first[lower[at] + 1]; word++)
            if (self->length[word] <= size - at && !memcmp(self->word[word], lower + at, self->length[word]))
                return 1;
    }
    return 0;
}

static int is_odd_head(const struct adoption *self, const char *name) {
    for (const char *head = self->terms.odd_heads; *head; head += strlen(head) + 1)
        if (!strncmp(head, name, strlen(head)))
            return 1;
    return 0;
}

static int is_odd_file(const struct adoption *self, const struct tracked *entry) {
    return is_odd_head(self, entry->name) || holds_part(self->parts, entry->name, entry->name_size);
}

static int is_odd_directory(const struct adoption *self, const struct folder *below) {
    return is_odd_head(self, below->name) || is_word(self->terms.built_in, below->name, below->name_size) ||
           (below->name_size > 3 && !strncasecmp(below->name, "git~", 4));
}

/* -- all names -- */

static int learn_hints(struct hinted *self, const struct hints *hints, uint64_t seed) {
    self->hints = hints;
    int known = learn_words(&self->names, hints->names, seed, 0);
    known &= learn_words(&self->heads, hints->heads, seed, 0);
    return learn_words(&self->tails, hints->tails, seed, 1) & known;
}

static void forget_hints(struct hinted *self) {
    free(self->names.slots), free(self->heads.slots), free(self->tails.slots);
}

/*
 * Tells over which names there is something to decide, by rules or by what a name that is not source code holds or begins with:
 * for each a directory and a place in it, of its files and then of its directories. Returns how many, or the largest number where there was no room.
 */
uint32_t mulligan_adopt_hits(void *given, const struct hints *files, const struct hints *dirs, uint64_t seed, uint32_t *rows) {
    const struct adoption *self = given;
    struct hinted by_file = {0}, by_dir = {0};
    uint32_t found = UINT32_MAX;
    if (learn_hints(&by_file, files, seed) & learn_hints(&by_dir, dirs, seed)) {
        found = 0;
        for (uint32_t at = 0; at < self->folders; at++) {
            const struct folder *folder = &self->all[at];
            int every_file = folder->flags & PLACE || files->every || is_on_the_way(files, folder);
            int every_dir = folder->flags & PLACE || dirs->every || is_on_the_way(dirs, folder);
            for (uint32_t file = 0; file < folder->files; file++) {
                const struct tracked *entry = &self->entries[folder->first + file];
                if (every_file || entry->is_odd || is_hinted(&by_file, entry->name, entry->name_size))
                    rows[2 * found] = at, rows[2 * found++ + 1] = file;
            }
            for (uint32_t dir = 0; dir < folder->dirs; dir++) {
                const struct folder *below = &self->all[self->below[folder->first_dir + dir]];
                if (every_dir || is_odd_directory(self, below) || is_hinted(&by_dir, below->name, below->name_size))
                    rows[2 * found] = at, rows[2 * found++ + 1] = folder->files + dir;
            }
        }
    }
    forget_hints(&by_file), forget_hints(&by_dir);
    return found;
}
