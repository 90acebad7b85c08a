"""The web config is taken as Prometheus' exporters take it; what this process cannot honour is refused, all of it at once."""

import platform
import re
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from sidecar.admin import web_config
from sidecar.admin.web_config import CIPHERS, DEAREST_HASH, files_named, load
from sidecar.config.file import ConfigErrors
from tests.support.certificates import Authority


HASH = "$2b$04$fW.W7YBUr5WJmr8w8DXSYuPqmij6ebLHjzwHswgHUL9zRU9GRBYeK"
TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    Authority(made)
    return made


def errors(folder: Path, text: str) -> list[str]:
    """The errors of this text, each without the path of its file."""
    file = folder / "web.yml"
    file.write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load(str(file))
    assert all(line.startswith(f"{file}:") for line in caught.value.lines)
    return [line.removeprefix(f"{file}:") for line in caught.value.lines]


def test_a_file_with_everything_that_is_supported_is_taken(folder: Path) -> None:
    file = folder / "whole.yml"
    file.write_text(
        f"""\
tls_server_config:
  cert_file: cert.pem
  key_file: {folder / "key.pem"}
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.monitoring.svc]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [{", ".join(CIPHERS)}]
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP256]
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny, X-XSS-Protection: "0"}}
basic_auth_users:
  prometheus: {HASH.replace("$2b$", "$2y$")}
rate_limit: {{interval: 1m0.5s, burst: 3}}
"""
    )
    loaded = load(str(file))

    assert loaded.context is not None
    assert loaded.context.verify_mode is ssl.CERT_REQUIRED
    assert loaded.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert ssl.OP_CIPHER_SERVER_PREFERENCE not in loaded.context.options
    assert set(CIPHERS.values()) <= {each["name"] for each in loaded.context.get_ciphers()}
    assert list(loaded.web.basic_auth_users) == ["prometheus"]
    assert (loaded.web.rate_limit.interval, loaded.web.rate_limit.burst) == (60.5, 3)


def test_a_curve_that_this_python_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As X25519 to CPython 3.11.2 with OpenSSL 3.0. It is named beside what else is wrong."""

    def unknown(_: ssl.SSLContext, curve: str) -> None:
        raise ssl.SSLError(1, f"[EC: UNKNOWN_GROUP] unknown group {curve}")

    monkeypatch.setattr(ssl.SSLContext, "set_ecdh_curve", unknown)
    python = f"CPython {platform.python_version()} with {ssl.OPENSSL_VERSION}"
    others = "CurveP256, CurveP384, CurveP521"

    assert errors(
        folder, "tls_server_config: {cert_file: cert.pem, key_file: nowhere.pem, curve_preferences: [X25519]}"
    ) == [
        "1:52: tls_server_config.key_file: cannot be read: No such file or directory",
        f"1:84: tls_server_config.curve_preferences: {python} does not know X25519: leave it out, or one of: {others}",
    ]


@pytest.mark.parametrize(
    "text", ["", "tls_server_config:\nbasic_auth_users:\nhttp_server_config:\nrate_limit: {interval: 0}\n"]
)
def test_a_file_that_asks_for_nothing_is_plain_http_without_passwords(text: str, folder: Path) -> None:
    """As for the exporters: an empty file, or one whose keys are all commented out, is right."""
    (folder / "empty.yml").write_text(text)
    loaded = load(str(folder / "empty.yml"))

    assert (loaded.context, dict(loaded.web.basic_auth_users), loaded.web.rate_limit.interval) == (None, {}, 0.0)


def test_without_a_wish_only_suites_with_forward_secrecy_from_tls_1_2_on_are_spoken(folder: Path) -> None:
    (folder / "plain.yml").write_text(f"{TLS}}}")
    context = load(str(folder / "plain.yml")).context

    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert {each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")} == set(
        CIPHERS.values()
    )
    assert context.verify_mode is ssl.CERT_NONE


def test_all_errors_are_told_at_once_each_with_its_place_and_what_is_allowed(folder: Path) -> None:
    told = errors(
        folder,
        """\
tls_server_config:
  cert: CANARY
  key_file: |
    -----BEGIN CANARY-----
  min_version: TLS10
  client_auth_type: RequireAnyClientCert
  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]
http_server_config:
  http2: true
  headers: {X-Frame-Options: any, Server: x}
basic_auth_users:
  alice: CANARY
  "a:b": CANARY
rate_limit: {interval: 5, burst: -1}
ratelimit: {}
""",
    )
    wrong = [line.split(": ", 2) for line in told]

    assert [(place, key) for place, key, _ in wrong] == [
        ("2:3", "tls_server_config.cert_file"),
        ("2:3", "tls_server_config.cert"),
        ("3:13", "tls_server_config.key_file"),
        ("5:16", "tls_server_config.min_version"),
        ("6:21", "tls_server_config.client_auth_type"),
        ("7:19", "tls_server_config.cipher_suites[0]"),
        ("9:10", "http_server_config.http2"),
        ("10:30", "http_server_config.headers.X-Frame-Options"),
        ("10:35", "http_server_config.headers.Server"),
        ("12:10", "basic_auth_users.alice"),
        ("13:3", "basic_auth_users.a:b"),
        ("13:10", "basic_auth_users.a:b"),
        ("14:24", "rate_limit.interval"),
        ("14:34", "rate_limit.burst"),
        ("15:1", "ratelimit"),
    ]
    assert [text for _, _, text in wrong if not re.search("must be|not supported|allowed here", text)] == []
    assert wrong[1][2] == "is not supported: write it to a file and name that in cert_file"
    assert wrong[3][2].startswith('"TLS10" is not supported (TLS 1.0 and 1.1 are broken): must be one of: TLS12, TLS13')
    assert "CANARY" not in "".join(told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{TLS}, client_ca_file: ca.pem}}", "client_ca_file: has no use while client_auth_type is NoClientCert"),
        (f"{TLS}, client_auth_type: VerifyClientCertIfGiven}}", "VerifyClientCertIfGiven needs client_ca_file"),
        (f"{TLS}, client_allowed_sans: [a]}}", "needs client_auth_type: RequireAndVerifyClientCert"),
        (f"{TLS}, min_version: TLS13, max_version: TLS12}}", "must be at least min_version"),
        (f"{TLS}, min_version: TLS13, cipher_suites: [{next(iter(CIPHERS))}]}}", "has no use while min_version is TLS13"),
        (f"{TLS}, curve_preferences: [X25519, CurveP256]}}", "curve_preferences: must be a list of 0 to 1"),
        ("rate_limit: {interval: 1s}", "burst: must be at least 1 where an interval is set"),
        ("tls_server_config: {cert_file: none.pem, key_file: key.pem}", "cert_file: cannot be read: No such file"),
        ("tls_server_config: {cert_file: key.pem, key_file: cert.pem}", "cert_file: is not PEM, or the key is not that of"),
        ("tls_server_config: {cert_file: cert.pem, key_file: locked.pem}", "key_file: is encrypted, which is not supported"),
        (
            f"{TLS}, client_auth_type: VerifyClientCertIfGiven, client_ca_file: web.yml}}",
            "client_ca_file: is no PEM of certificates",
        ),
        ("tls_server_config: {}", "tls_server_config.cert_file: is required, and missing"),
        (f"basic_auth_users: {{a: {HASH.replace('$04$', f'${DEAREST_HASH + 1}$')}}}", "has a cost outside 4 to 14"),
        ("basic_auth_users: [a]", "basic_auth_users: must be a mapping"),
        ("basic_auth_users: {a: x, a: y}", "appears twice"),
        ("a: [", "is not YAML"),
        ("- a", "must be a mapping of sections"),
    ],
)  # fmt: skip
def test_what_would_not_hold_is_refused(text: str, said: str, folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"pw")
    (folder / "locked.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    told = errors(folder, text)

    assert said in "\n".join(told)
    assert HASH[7:] not in "\n".join(told)


@pytest.mark.parametrize(
    ("name", "key"), [("key.pem", "cert_file"), ("cert.pem", "cert_file"), ("ca.pem", "client_ca_file")]
)
def test_a_file_that_vanishes_while_it_is_read_is_an_error_of_the_config(
    name: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal may take the old file away before it writes the new one."""
    Authority(tmp_path)
    look = web_config._unreadable

    def then_gone(tls: web_config.TlsServer, folder: Path) -> list[tuple[tuple[int | str, ...], str]]:
        found = look(tls, folder)
        (folder / name).unlink()
        return found

    monkeypatch.setattr(web_config, "_unreadable", then_gone)
    (error,) = errors(tmp_path, f"{TLS}, client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.pem}}")

    assert error.startswith("1:")
    assert f"tls_server_config.{key}: " in error
    assert "cannot be read: No such file" in error


def test_the_files_that_are_named_are_known_even_where_the_rest_is_wrong(folder: Path) -> None:
    """They are looked at for a change, so that a certificate that comes late is taken."""
    file = folder / "named.yml"
    file.write_text("tls_server_config: {cert_file: late.pem, key_file: /etc/key.pem, client_ca_file: 5}\nwrong: 1\n")

    assert files_named(str(file)) == (file, folder / "late.pem", Path("/etc/key.pem"))
    assert files_named(str(folder / "none.yml")) == (folder / "none.yml",)
