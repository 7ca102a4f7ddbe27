"""
Files a checkpoint must not hold, and look-alikes it must, put together at run time.

Nothing here is a secret and nothing on disk looks like one: headers and tokens are joined from pieces when asked for,
so that no scanner of repositories takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string

_DIRECTORIES = ("", "config/", "deploy/prod/", "src/app/")
_SECRET_NAMES = """
.env .env.local .env.example .env.sample .env.template .env.dist .env.production .env.staging.local .env-prod .ENV prod.env docker.env .envrc .dev.vars
server.pem privkey.pem tls/server-key.pem cert-key.pem keycert.pem server.key ca-private.key AuthKey_ABC.p8
id_rsa id_dsa id_ecdsa id_ed25519 id_ed25519_sk id_rsa.bak id_rsa_work ssh_host_ed25519_key deploy.ppk
.ssh/deploy .ssh/id_work .npmrc .netrc _netrc .pypirc .git-credentials .pgpass .my.cnf .htpasswd .s3cfg .boto
.aws/credentials credentials credentials.json aws-credentials.json app.credentials.yaml credentials.csv
service-account.json service-account-prod.json my_service_account.json client_secret.json client_secret_12.apps.json
shop-firebase-adminsdk-x1.json gcp-key.json application_default_credentials.json .config/gcloud/credentials.db
.docker/config.json .dockercfg .kube/config kubeconfig prod.kubeconfig cluster/kubeconfig.yaml client.ovpn
store.p12 store.pfx release.jks release.keystore debug.KEYSTORE passwords.kdbx wallet.dat secring.gpg
secrets.yml secrets.yaml secrets.json secrets.toml .streamlit/secrets.toml prod.secrets.json .secrets.toml .secrets
terraform.tfstate terraform.tfstate.backup staging.tfstate .vault-token .vault_pass .token token.json
.config/gh/hosts.yml .codex/auth.json .cargo/credentials.toml .m2/settings.xml huggingface/token oauth_creds.json
user_accessKeys.csv rootkey.csv kaggle.json .databrickscfg key.properties .terraformrc rclone.conf
"""
_PLAIN_NAMES = """
.env.d.ts .environment env.py environment.yml .envoy.yaml .env.md
environ.h venv.cfg README.md id_rsa.pub id_ed25519.pub id_rsa_test.go idea.txt id_rsa.md .ssh/known_hosts .ssh/config
.ssh/id_rsa.pub cacert.pem ca-bundle.pem fullchain.pem server-cert.pem public.pem jwt_public.pem translations.key
slides.key public.key keys.py key.rs keyboard.c monkey.py tokens.json token.py tokenizer.json token.c locales/en/auth.json
credentials.py credentials.ts credentials.example.json credentials_test.go secret.py secrets.py secrets.ts
chart/templates/secrets.yaml chart/templates/secret.yaml secrets.enc.yaml service.json service.yaml service-account.ts
serviceworker.js client.json config.json docker/config.json kube/config main.tf variables.tf terraform.tf hosts.yml
package.json package-lock.json npmrc.md netrc.py .gitignore .gitattributes .editorconfig Makefile settings.xml
credential-helper.sh my-secrets-guide.md keystore.go jks.py pem.py gh/hosts.txt gcp-key.tf passwords.md
"""


def secret_paths() -> list[bytes]:
    """Returns paths whose names alone say secret."""
    return [(folder + name).encode() for folder in _DIRECTORIES for name in _SECRET_NAMES.split()]


def plain_paths() -> list[bytes]:
    """Returns paths that only look a little like it."""
    return [(folder + name).encode() for folder in _DIRECTORIES for name in _PLAIN_NAMES.split()]


def _noise(rng: random.Random, size: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(rng.choices(alphabet, k=size))


def armour(kind: str, rng: random.Random, *, dashes: str = "-----") -> bytes:
    """Returns an armoured block of noise with the given label."""
    body = base64.encodebytes(rng.randbytes(600)).decode()
    return f"{dashes}BEGIN {kind}{dashes}\n{body}{dashes}END {kind}{dashes}\n".encode()


def key_files(rng: random.Random) -> list[bytes]:
    """Returns the contents of private key files of every kind, plain and with what tools put in front."""
    word = "PRIVATE" + " KEY"
    kinds = [word, *(f"{which} {word}" for which in ("RSA", "EC", "DSA", "OPENSSH", "ENCRYPTED"))]
    keys = [armour(kind, rng) for kind in [*kinds, f"PGP {word} BLOCK"]]
    keys.append(armour(f"SSH2 ENCRYPTED {word}", rng, dashes="---- ").replace(b"---- \n", b"----\n"))
    pem = keys[0]
    certificate = armour("CERTIFICATE", rng)
    keys += [
        b"\xef\xbb\xbf" + pem,
        b"\n \n" + pem,
        b"# made by hand\n; twice\n// or more\n" + pem,
        pem.replace(b"\n", b"\r\n"),
    ]
    keys += [certificate + pem, armour("EC PARAMETERS", rng) + pem, b"Bag Attributes\n    localKeyID: 01\n" + pem]
    keys += [pem.decode().encode("utf-16"), b"\xfe\xff" + pem.decode().encode("utf-16-be")]
    account = {"type": "service_account", "project_id": "p", "private_key": pem.decode(), "client_email": "a@b"}
    keys += [json.dumps(account).encode(), json.dumps(account, indent=2).encode()]
    keys += [
        b"PuTTY-User" + b"-Key-File-3: ssh-ed25519\n",
        b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
        b"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5",
    ]
    return [*keys, b"Access key ID,Secret access key\r\nx,y\r\n"]


def token_files(rng: random.Random) -> list[bytes]:
    """Returns the contents of files that are nothing but one token."""
    hexadecimal = "0123456789abcdef"
    tokens = [
        *("gh" + kind + "_" + _noise(rng, 36) for kind in "pousr"),
        *("github" + "_pat_" + _noise(rng, 60), "gl" + "pat-" + _noise(rng, 20), "xo" + "xb-" + _noise(rng, 40)),
        *("AI" + "za" + _noise(rng, 35), "sk" + "_live_" + _noise(rng, 24), "sk" + "-ant-" + _noise(rng, 80)),
        *("sk" + "-proj-" + _noise(rng, 60), "sk" + "-" + _noise(rng, 48), "npm" + "_" + _noise(rng, 36)),
        *(
            "pypi" + "-AgE" + _noise(rng, 120),
            "h" + "f_" + _noise(rng, 34),
            "dop" + "_v1_" + _noise(rng, 64, hexadecimal),
        ),
        *(
            "SG" + "." + _noise(rng, 22) + "." + _noise(rng, 43),
            "hv" + "s." + _noise(rng, 90),
            "dapi" + _noise(rng, 32, hexadecimal),
        ),
        "AGE-SECRET" + "-KEY-1" + _noise(rng, 58, string.ascii_uppercase + string.digits),
        "ey" + "J" + _noise(rng, 30) + ".ey" + "J" + _noise(rng, 80) + "." + _noise(rng, 43),
        "https://hooks" + ".slack.com/services/T" + _noise(rng, 8) + "/B" + _noise(rng, 8) + "/" + _noise(rng, 24),
    ]
    shapes = (
        "{}",
        "{}\n",
        "\n{}\r\n",
        "TOKEN={}\n",
        "export API_KEY='{}'\n",
        'token: "{}"\n',
        "# do not share\n{}\n",
        "Bearer {}",
    )
    return [shape.format(token).encode() for token in tokens for shape in shapes]


def plain_contents(rng: random.Random) -> list[bytes]:
    """Returns the contents of ordinary files that speak of keys and tokens, or show public ones."""
    word = "PRIVATE" + " KEY"
    token = "gh" + "p_" + _noise(rng, 36)
    return [
        b"",
        b"x\n",
        armour("CERTIFICATE", rng),
        armour("PUBLIC KEY", rng),
        armour("PGP SIGNATURE", rng),
        armour("PGP PUBLIC KEY BLOCK", rng),
        b'"""Reads keys."""\n\nHEADER = "-----BEGIN ' + word.encode() + b'-----"\n',
        b"# -----BEGIN " + word.encode() + b"-----\nprint('a comment is no key')\n",
        b"// " + word.encode() + b"\npackage keys\n",
        b"A guide\n=======\n\n" + armour(word, rng),
        json.dumps({"type": "service_account", "help": f"paste the {word} here"}).encode(),
        f"Use a token such as {token} in the header.\n".encode(),
        f"first = 1\ntoken = '{token}'\n".encode(),
        f"tokens = ['{token}', 'other']\n".encode(),
        b"gh" + b"p_short\n",
        b"sk" + b"-learn\n",
        _noise(rng, 64).encode() + b"\n",
        _noise(rng, 40, "0123456789abcdef").encode() + b"\n",
        rng.randbytes(4096),
        b"\xff\xfe" + rng.randbytes(501),
        bytes(4096),
        b"#!/bin/sh\n" + b"# comment\n" * 400,
    ]
