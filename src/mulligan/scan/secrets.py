"""
Files that hold keys, tokens or passwords, by their names and by how they begin.

A file found here is not captured and not touched by a restore unless git tracks it or the user's own config asks for it, and
it is listed with the reason returned here. Two errors weigh differently: a missed secret lies in a private store until it is forgotten,
a wrong guess leaves a file unprotected. So names count where tools and custom give them one meaning, and content counts
only where a file begins with a key or is nothing but a token. Not promised: secrets inside source code or prose.

Decided on purpose:
- names are compared without case, and `credentials.sample.json` and the like are not secret; `.env.example` is: people fill
  it in before they rename it. What git tracks is in git already, and saved like any other file (the scope decides that);
- `*.pem` and `*.key` are, unless the rest of the name says public, certificate bundle, slides or translation;
- Terraform state is, since it holds every generated password in plain text;
- `tokens.json` is not (design tokens), nor `auth.json` below the root (translations), nor a chart's `templates/secrets.yaml`.

`redact` leaves secrets out of text: private keys, tokens of known shapes, passwords in addresses, and the values of names that
say password, token or key. A word too many left out costs nothing there; a secret in a new form is not recognised, which is why
copies of conversations are bounded and private too.
"""

from __future__ import annotations

import re

_ENVIRONMENT = "named like an environment file"
_CREDENTIALS = "named like a credentials file"
_PRIVATE_KEY = "named like a private key"
_KEY_STORE = "named like a key store"
_TOKEN = "named like a token file"
_STATE = "Terraform state, which holds secrets in plain text"


def _table(**words: str) -> dict[bytes, str]:
    reasons = {"environment": _ENVIRONMENT, "credentials": _CREDENTIALS, "key": _PRIVATE_KEY, "store": _KEY_STORE}
    reasons |= {"bearer": _TOKEN, "state": _STATE}
    return {word.encode(): reasons[kind] for kind, names in words.items() for word in names.split()}


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


# Words that say a file is there to be shown, and words that say a `.pem` or a `.key` is no private key.
_SHOWN = _words("default defaults demo dist example examples sample samples schema template templates tmpl tpl")
_PUBLIC = _words(
    "bundle ca cacert cacerts cert certs certificate certificates chain fullchain csr dhparam dhparams"
    " pub pubkey public publickey root roots"
)
_OTHER_KEYS = _words(
    "answer answers deck i18n keynote l10n lang locale locales messages presentation pub pubkey public publickey slides"
    " strings talk translation translations"
)
_PRIVATE = _words("key priv private privkey")
_DOCUMENTS = (b".d.ts", b".md", b".rst", b".html")
_WORD = rb"[^a-z0-9]+"

_NAMES = _table(
    environment=".envrc .dev.vars",
    credentials=".npmrc .netrc _netrc .pypirc .git-credentials .pgpass pgpass.conf .my.cnf .mylogin.cnf .htpasswd"
    " .htdigest .s3cfg .boto .terraformrc terraform.rc .msmtprc .fetchmailrc rclone.conf .rclone.conf .smbcredentials"
    " .dockercfg .dockerconfigjson .databrickscfg .sentryclirc access_tokens.db accesstokens.json oauth_creds.json"
    " kaggle.json rootkey.csv kubeconfig kubeconfig.yml kubeconfig.yaml key.properties keystore.properties .vault_pass"
    " .vault_pass.txt vault_pass.txt .vault-password .secret .secrets settings-security.xml credentials.db"
    " application_default_credentials.json",
    bearer=".vault-token .token .tokens token.json token.pickle access_token access_token.txt auth_token auth_token.txt"
    " api_key api_key.txt apikey.txt .api_key .apikey api_token",
    store="secring.gpg secring.pgp secring.kbx wallet.dat",
    state="terraform.tfstate terraform.tfstate.backup",
)
_EXTENSIONS = _table(
    store="p12 pfx pkcs12 jks jceks bcfks keystore kdbx kdb keychain keychain-db",
    key="ppk p8 agekey",
    credentials="kubeconfig ovpn",
    state="tfstate",
)
# How source code and documents end.
SOURCE = _words(
    "py pyi ipynb js jsx ts tsx mjs cjs c h cc cpp cxx hpp hh go rs java kt kts scala swift rb php pl lua r jl cs fs ex exs erl"
    " hs clj dart vue svelte css scss less html md rst sql sh bash zsh ps1 svg png jpg jpeg gif webp ico woff woff2 pdf proto"
)
_TELLING = frozenset((*_EXTENSIONS, b"pem", b"key"))
# A dot, and how letters begin that some file systems do not see.
_BEFORE_DOT = b".\xe2\xef"
# What a name means only below the directory that a tool keeps it in.
_BELOW = {
    b".aws": rb"credentials.*",
    b".docker": rb"config\.json",
    b".kube": rb"config|.*\.ya?ml",
    b".ssh": rb"(?!known_hosts|authorized_keys|config|.*\.pub$|.*\.md$).*",
    b".gnupg": rb"secring.*",
    b"private-keys-v1.d": rb".*",
    b".azure": rb"msal_token_cache.*|accesstokens.*|service_principal.*",
    b"gcloud": rb".*credentials.*|access_tokens.*",
    b"gh": rb"hosts\.yml",
    b".codex": rb"auth\.json",
    b".composer": rb"auth\.json",
    b"containers": rb"auth\.json",
    b".cargo": rb"credentials.*",
    b".gem": rb"credentials.*",
    b".m2": rb"settings\.xml",
    b".dbt": rb"profiles\.yml",
    b".oci": rb"config",
    b".snowsql": rb"config",
    b"huggingface": rb"token|stored_tokens",
    b".cloudflared": rb".*\.json|cert\.pem",
}
_ENV_NAME = rb"\.env(?:[._-].*)?|\.dev\.vars\..*|.+\.env"
_SSH_NAME = (
    rb"id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk|xmss)(?:[_-][^.]*)?(?:\.(?:bak|backup|old|orig|save|pem|key|tmp|\d+))?"
    rb"|ssh_host_[a-z0-9]+_key"
)
_FAMILIES = (
    rb"(?:.*[._-])?credentials?(?:\.(?:json|ya?ml|toml|ini|csv|xml|cfg|conf|txt|properties))?"
    rb"|(?:.*\.)?secrets\.(?:ya?ml|json|toml|ini|properties|auto\.tfvars|tfvars)"
    rb"|\.secrets\.(?:ya?ml|json|toml)"
    rb"|(?:.*[-_.])?service[-_]?accounts?(?:[-_.].*)?\.json"
    rb"|client_secrets?(?:[-_.].*)?\.json|.*-firebase-adminsdk-.*\.json"
    rb"|(?:gcp|gcloud|google)[-_.](?:.*[-_.])?key\.json"
    rb"|.*_accesskeys\.csv"
)


def secret_name(path: bytes) -> str:
    """Returns why a file's name says that it is secret, an empty string if it does not; for files, not directories."""
    above, slash, name = path.lower().rpartition(b"/")
    found = _NAMES.get(name)
    if found:
        return found
    extension = name.rpartition(b".")[2]
    if extension in _TELLING and b"." in name:
        return _EXTENSIONS.get(extension) or _key_file(name, extension)
    here = _BELOW.get(above[above.rfind(b"/") + 1 :]) if slash else rb"auth\.json"
    if here and re.fullmatch(here, name):
        return _CREDENTIALS
    # No shape ends like source code, but for what begins like an environment file: most files need no closer look.
    return "" if extension in SOURCE and name[:1] != b"." else _by_shape(name, path)


def is_plain_name(name: bytes) -> bool:
    """Returns whether a file is named like source code or a document, which says that its name is not that of a secret."""
    # Asked of every file: one with a dot in front, or with what may stand before one unseen, or with capital letters behind the last,
    # is looked at more closely.
    return name.rpartition(b".")[2] in SOURCE and name[0] not in _BEFORE_DOT and b"." in name


def is_plain_place(directory: bytes) -> bool:
    """Returns whether no file is a secret, or anything else of its own, for being in a directory."""
    name = directory.rpartition(b"/")[2]
    return name[:1] != b"." and name.lower() not in _BELOW


def _by_shape(name: bytes, path: bytes) -> str:
    if b"env" in name or b".dev" in name:
        shape, reason = _ENV_NAME, _ENVIRONMENT
    elif name.startswith((b"id_", b"ssh_host_")):
        shape, reason = _SSH_NAME, _PRIVATE_KEY
    elif b"credential" in name or b"secret" in name or b"service" in name or b"key" in name or b"firebase" in name:
        shape, reason = _FAMILIES, _CREDENTIALS
    else:
        return ""
    if not re.fullmatch(shape, name) or name.endswith(_DOCUMENTS) or (shape != _ENV_NAME and is_sample(name)):
        return ""
    if name.startswith(b"secrets.y") and path.lower().endswith(b"templates/" + name):
        return ""
    return reason


def is_sample(name: bytes) -> bool:
    """Returns whether a file name says that it is an example; one that git tracks holds no secret, whatever it is like."""
    return not _SHOWN.isdisjoint(re.split(_WORD, name.lower()))


def _key_file(name: bytes, extension: bytes) -> str:
    words = re.split(_WORD, name)[:-1]
    harmless = _PUBLIC if extension == b"pem" else _OTHER_KEYS
    # `key` and `private` overrule: `cert-key.pem` and `root-private.pem` are keys.
    if not harmless.isdisjoint(words) and _PRIVATE.isdisjoint(words):
        return ""
    return _PRIVATE_KEY


_SMALL = 2048
_BEGINNINGS = (
    (b"PuTTY-User-Key-File-", "begins like a PuTTY private key"),
    (b"SSH PRIVATE KEY FILE FORMAT", "begins like an SSH private key"),
    (b"\xfe\xed\xfe\xed\x00\x00\x00", "begins like a Java key store"),
    (b"\xce\xce\xce\xce\x00\x00\x00", "begins like a Java key store"),
    (b"\x03\xd9\xa2\x9a", "begins like a password database"),
    (b"Access key ID,Secret access key", "begins like an exported access key"),
    (b"AWSAccessKeyId=", "begins like an exported access key"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ODD_STARTS = (*(start for start, _ in _BEGINNINGS), *_UTF16)
_COMMENTS = (b"#", b"//", b";")
# How far to look for a key, by the first byte: all the way where it may open a key file, a little where it may open a
# comment, blank space or JSON before the key, not at all elsewhere.
_REACH = dict.fromkeys((b"-", b"B"), 4096) | dict.fromkeys(
    (b"#", b"/", b";", b"\xef", b" ", b"\t", b"\r", b"\n", b"{"), 1024
)
_KEY_LINE = rb"^-----?-? ?BEGIN [A-Z0-9 ]*PRIVATE KEY"
_BAG = b"Bag Attributes"
_NAMED = rb"""(?:export\s+)?(?:[A-Za-z_][\w.-]*\s*(?:=|:(?!//))\s*)?(?:Bearer\s+)?["']?([^\s"',;]+)["']?[,;]?"""
TOKENS = (
    rb"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255}|glpat-[\w.-]{20,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"
    rb"|AIza[\w-]{35}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}"
    rb"|sk-ant-[\w-]{20,}|sk-proj-[\w-]{20,}|sk-[A-Za-z0-9]{32,}|npm_[A-Za-z0-9]{36}|pypi-Ag[\w-]{50,}|hf_[A-Za-z0-9]{30,}"
    rb"|do[opr]_v1_[0-9a-f]{64}|SG\.[\w-]{16,}\.[\w-]{32,}|hv[sbr]\.[\w-]{20,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
    rb"|[0-9]{8,10}:AA[\w-]{33}|AGE-SECRET-KEY-1[0-9A-Z]{58}|dapi[0-9a-f]{32}|lin_api_[A-Za-z0-9]{40}|PMAK-[\w-]{50,}"
    rb"|ATATT3[\w=-]{100,}|dp\.(?:pt|st|ct)\.[\w.-]{40,}|nfp_[A-Za-z0-9]{36,}|rk_[A-Za-z0-9]{40,}"
    rb"|https://hooks\.slack\.com/services/T\w+/B\w+/\w{20,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"
)


def secret_content(head: bytes) -> str:
    """
    Returns why the first 4096 bytes of a file say that it is secret, an empty string if they do not.

    Asked of every file that is read: an ordinary one costs two comparisons, or one short search.
    """
    if head.startswith(_ODD_STARTS):
        return _odd_start(head)
    reach = _REACH.get(head[:1])
    if reach and head.find(b"PRIVATE KEY", 0, reach) >= 0 and (found := _private_key(head)):
        return found
    if 20 <= len(head) <= _SMALL and head.count(b"\n") <= 6:
        return _lone_token(head)
    return ""


def _odd_start(head: bytes) -> str:
    if head.startswith(_UTF16):
        return secret_content(head.decode("utf-16", "ignore").encode("utf-8", "ignore"))
    return next(reason for start, reason in _BEGINNINGS if head.startswith(start))


def _content_lines(head: bytes) -> list[bytes]:
    lines = (line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    return [line for line in lines if line and not line.startswith(_COMMENTS)]


def _private_key(head: bytes) -> str:
    lines = _content_lines(head)
    first = lines[0] if lines else b""
    # A certificate or parameters in front of the key, as servers want them, is still a key file.
    if first.startswith((b"-----BEGIN ", b"---- BEGIN ", _BAG)) and re.search(
        _KEY_LINE, b"\n".join(lines), re.MULTILINE
    ):
        return "begins like a private key"
    if first.startswith(b"{") and b'"service_account"' in head and b'"private_key"' in head:
        return "begins like a service account's key"
    return ""


def _lone_token(head: bytes) -> str:
    lines = _content_lines(head)
    if len(lines) != 1:
        return ""
    named = re.fullmatch(_NAMED, lines[0])
    return "is nothing but a token" if named and re.fullmatch(TOKENS, named[1]) else ""


LEFT_OUT = "[left-out]"
# Each keeps its first group, if it has one that matched.
_LEAKS = (
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
    r"(?<![A-Za-z0-9])(?:" + TOKENS.decode() + r"|AKIA[0-9A-Z]{16})",
    r"(://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)",
    r"""(?ix)( (?:password|passwd|passphrase|_pass|_pwd|secret|token|api_?key|access_?key|private_?key|secret_?key|credential)s?
        \\?["']? \s* [=:] \s* (?:bearer\s+)? \\?["']? ) [^\s"',;&|\\]{3,}""",
    r"(?i)(bearer\s+)[\w.~+/=-]{8,}",
)


def redact(text: str) -> str:
    """Returns a text with what looks like a secret left out."""
    for pattern in _LEAKS:
        text = re.sub(pattern, _left_out, text)
    return text


def _left_out(match: re.Match[str]) -> str:
    return (match[1] if match.re.groups and match[1] else "") + LEFT_OUT
