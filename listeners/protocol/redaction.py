"""Mask secrets in texts and JSON values: in the driver before they are stored, and again where the server takes events.

Masked are values of secret keys in every notation (`key=value`, JSON, XML, tuples, options, url-encoded), credentials
in URLs, authorization headers, PEM blocks, webhook addresses and the tokens of well-known services. Secret keys are
those below and those of the session's `spark.redaction.regex`. Masking is idempotent. Most texts hold no secret:
`may_hold_secret` decides that by a few searches for fixed words, and only other texts are read closely.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match, Pattern
from typing import Any

from listeners.protocol import wire

#: Spark's default (core/internal/config, 4.3).
DEFAULT_REGEX = "(?i)secret|password|token|access[.]?key"
REDACTED = "*********(redacted)"
MAX_TEXT_CHARS = 32_000

#: Only the end of a longer key is matched.
MAX_KEY_CHARS = 200

#: In lower case, a word of each form below; `key` alone is frequent and is looked at closely.
HINTS = (
    *("pass", "pwd", "secret", "token", "credential", "authorization", "bearer", "basic ", "sig", "jaas"),
    *("-----begin", "hook", "telegram", "eyj", "ghp_", "gho_", "ghs_", "github_pat", "glpat-", "xox"),
    *("akia", "cp_", "dapi", "aiza", "sqlplus", "oracle:", "oracle%3a", "cookie", "sessionid", "sessid"),
    "identified by",
    "curl",
)
KEY_HINT = re.compile(r"(?:api|access|account|shared|private|storage|encryption)[-_.]?key|[?&]key=")
#: `user/secret@`.
SLASH_HINT = re.compile(r"""[a-z0-9_$#"\]]/(?:[^/@"' \n]{1,200}|\\*"[^"@]{1,200}")@""")
_AT = ("@", "%40")  # of credentials in a URL

_STRONG = r"passw(?:or)?d|passphrase|passcode|secret|private[-_.]?key|api[-_.]?key|accesskey|account[-_.]?key"
_SECRET_KEY = re.compile(
    rf"(?i:{_STRONG}|access[-_.]key|shared[-_.]?key|storage[-_.]?key|encryption[-_.]?key|token|credential"
    r"|authorization|signature)|(?:^|[-_.])(?:(?i:pwd|pass|sig|jwt))$|[a-z](?:Pwd|Pass)$|(?i:jaas[-_.]config)$"
    r"|(?i:cookies?2?|(?:j|php|asp)sess(?:ion)?id)$"
)
_STRONG_KEY = re.compile(rf"(?i:{_STRONG}|pwd$|pass$)")
#: What a secret key is, by its end, only in name: counts, places and kinds of secrets.
_HARMLESS_KEY = re.compile(
    r"(?i:tokens|tokeniz\w*|secretar\w*|provider|class|type|url|uri|endpoint|file|path|dir|location|version|enabled"
    r"|required|ttl|expiry|expiration|expires|lifetime|length|count|policy|algorithm|name|events?|topic|resets?"
    r"|renewer|service|kind|age|interval|exception|error|failure|failed)$"
)
_HARMLESS_VALUE = re.compile(r"(?i:true|false|null|none|nil|undefined|\*+\(redacted\)?|\*{3,}|<redacted>|)")
_DIRECTORIES = ("PWD", "OLDPWD")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

# Each pattern reads a text once, whatever it contains: no word is tried again from its middle.
_KEY = re.compile(
    r"""(?P<key>[\w.\-]+)(?P<is>(?:\\*["'])?\s*(?:=>|->|[=:]|%3[DdAa])\s*(?:(?i:bearer|basic|digest)\s+)?)?"""
)
_VALUE = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|\\+"[^"]*"|\\+'[^']*'|(?!\\*[{\[])[^\s,;&)}\]]+""",
    re.DOTALL,
)
_ENCODED_VALUE = re.compile(r"(?:(?!%26|%3[Bb]|%2[Cc]|%22)[^\s,;&)}\]<>\"'])+")
#: The rest of a value that is not quoted, up to a delimiter or the next key.
_CONTINUATION = re.compile(r"(?:[ \t]+(?![\w.\-]+\s*[=:])[^\s,;&)}\]<>\"'=]+)+")
_BEGINS_ENTRY = re.compile(r"(?:^|[\n;?&{,|])[ \t]*\Z")
_TUPLE = re.compile(
    r"""(?<!\w)([(\[{]\s*)(\\*["']|(?<=\())([\w.\-]{1,200})(\\*["'])?(\s*,\s*)"""
    r"""(\\*"[^"\\]*\\*"|\\*'[^'\\]*\\*'|[^\s,()\[\]"'\\]+)"""
)
_XML = re.compile(r"<([\w.\-:]{1,200})((?:\s[^<>]*)?)>([^<]+)(?=</)")
_XML_PROPERTY = re.compile(r"(<name>\s*)([^<\s]{1,300})(\s*</name>\s*<value>)([^<]*)")
_OPTION = re.compile(
    r"""(?<![\w\-])(--?)([A-Za-z][\w.\-]{1,200})([ \t]+)(?!-)("[^"]*"|'[^']*'|[^\s"',;)}\]]+)"""
)

#: `user:password@`. Not secrets: `container@account`, and `host:8020/`. S3 keys may contain a slash.
_USER_INFO = re.compile(r"(?<=://)[^/\s?#@:]*:(?!\d+[/;,])(?:[^/\s?#]*@|[^\s?#@]{0,200}@)")
#: `token@`, except where that part is a container or an ordinary user.
_TOKEN_INFO = re.compile(
    r"(?i)((?<![\w+])(?!abfss?:|wasbs?:|adl:|ssh:|sftp:|git:|hdfs:)[a-z][\w+.\-]{0,40}://)[^/\s?#@:\"'<>]+@"
)
_ENCODED_USER_INFO = re.compile(
    r"""(?i)(://|%3A%2F%2F)(?:(?!%3A|%40)[^/\s?#@&"':])*(?::|%3A)(?:(?!%40)[^/\s?#@&"']){0,300}%40"""
)
_USER = r"""[^\s/@"':]{1,128}|\\*"[^\s/@"':]{1,128}\""""
_SLASHED = r"""(?!/)(?:\\*"[^"@]{1,200}"|[^\s@"']{1,200})"""
#: `user/secret@host` after the scheme of any driver, and after the programs and options of Oracle.
_ORACLE = re.compile(
    rf"""(?i)((?:\bjdbc:[\w.\-+:]{{0,100}}:|\boracle:\w{{1,20}}:|\b(?:user(?:id|name)?|dsn|url)\s?=\s?["']?"""
    rf"""|\b(?:sqlplus|sqlldr|sqlcl|rman|(?:exp|imp)(?:dp)?|connect(?:\s+as)?|conn|target)\w{{0,9}}"""
    rf"""(?:\s{{1,4}}-\w{{1,20}}){{0,4}}\s{{1,4}})(?:{_USER})/){_SLASHED}(?=@)"""
)
#: The same without such a context. Not secrets: principals of Kerberos, versions, digests, hashes and branches.
_USER_SECRET = re.compile(
    r"""(?<![\w./@%$#\-])([A-Za-z][\w$#]{0,127}(?:\[\w{1,128}\])?/)(?!0x|_HOST@"""
    r"""|[A-Za-z0-9.\-]{1,200}@[A-Z0-9\-]{1,63}(?:\.(?!WORLD\b)[A-Z0-9\-]{1,63}){1,10}\b)"""
    r"""(\\*"[^"@]{1,200}"|[^\s/@"'\\,;]{1,200})(?=@(?!sha\d+:|[0-9a-f]{5,8}\b|v\d"""
    r"""|(?:main|master|HEAD|latest|develop)\b)(?://\w|\(|\[|[\w.\-]+:\d|[A-Za-z]))"""
)
_ENCODED_ORACLE = re.compile(
    r"(?i)(oracle%3A\w{1,20}%3A[\w.\-]{1,128}%2F)(?!%2F)(?:(?!%40)[^\s&\"']){1,200}(?=%40)"
)
#: Cookies of a header up to the end of the line or of the text in quotes. Attributes are masked with them.
_COOKIE = re.compile(
    r"""(?i)((?<![\w.])(?:set-)?cookies?2?(?:[_\-]?(?:store|jar))?\\*["']?\s?(?:=>|->|[:=,])\s?[\[(]?\s?\\*["']?)"""
    r"""(?!\*{9})[\w!#$%&'*+.^`|~\-]{1,200}=(?:\\*"[^"\\\r\n]*\\*"|\{[^{}\r\n]*\}|[^\s;,"'\\\]})<]*)"""
    r"""(?:[;,](?:\{[^{}\r\n]*\}|[^;,"'\\\r\n\]})<])*(?:(?<==)\\*"[^"\\\r\n]*\\*")?)*"""
)
#: Lists, dictionaries and objects of cookies; cookies that follow the word, or curl's option, without a sign.
_COOKIES = re.compile(
    r"""(?i)((?<![\w.])(?:set-)?cookies?2?(?:[_\-]?(?:store|jar))?\\*["']?\s?(?:=>|->|[:=])\s?[\[({])"""
    r"""(?!\*{9})(?=[^\[\](){}\r\n]{0,400}[:=])"""
    r"""[^\[\](){}\r\n]+(?=[\])}])"""
    r"""|((?<![\w.])Cookie\([^()\r\n]{0,300}?\bvalue=)(?!\*{9})(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s,)"']+)"""
    r"""|((?<![\w.])cookies?\s{1,4}(?:(?:is|are)\s{1,4})?)(?!(?:domain|path|name|expires|max-age|samesite|secure|count|size)=)"""
    r"""[\w!#$%&*+.^`|~\-]{1,200}=[^\s;,"'\\\]})<>]+(?:[;,]\s?[\w!#$%&*+.^`|~\-]{1,200}=[^\s;,"'\\\]})<>]+)*"""
    r"""|(\bcurl\b[^\r\n]{0,300}?\s-\w{0,8}b\s?)(?:"[^"=\r\n]*=[^"\r\n]*"|'[^'=\r\n]*=[^'\r\n]*'|[^\s=\-"'][^\s="']*=[^\s"']*)"""
)
#: A secret that follows the word without a sign: a phrase to the next delimiter, a word of SQL or of `.netrc`.
_PHRASE = re.compile(
    r"""(?i)(passphrase[ \t]+)(?!(?:is|was|are|has|had|must|may|can|could|cannot|should|will|does|did|not|no|and|or|if"""
    r"""|for|from|of|in|on|to|with|by|at|as|than|that|which|when|while|the|an?|this|file|files|callback|prompt|provider"""
    r"""|protect\w*|environment|variable|option|length|required|missing|empty|invalid|wrong|incorrect|mismatch|given"""
    r"""|needed|expired|changed|strength|policy|rejected|accepted|authentication|hint|failed|failure)\b)"""
    r"""(?:(["'])[^"'\n]{1,200}\2|(?![*"'({\[<=:|-])[^,;)}\]"'<>\n]{1,200})"""
)
_SQL = re.compile(
    r"""(?i)(\b(?:user|role)\s{1,4}\S{1,100}\s{1,4}identified\s{1,4}by(?:\s{1,4}values)?\s{1,4}"""
    r"""|\bpassword\s{1,4}(?=')|\bmachine\s{1,4}\S{1,100}\s{1,4}login\s{1,4}\S{1,100}\s{1,4}password\s{1,4}"""
    r"""|\bsqlplus\w{0,9}(?:\s{1,4}-\w{1,20}){0,4}\s{1,4}[^\s/@"']{1,128}/)(?!\*{9})"""
    r"""("[^"\n]{1,200}"|'[^'\n]{1,200}'|[^\s;"']{1,200})"""
)
_HEADER = re.compile(r"(?i)\b(bearer|basic|aws4-hmac-sha256|negotiate)(\s+)([A-Za-z0-9+/=._~\-]{6,})")
_LOOKS_RANDOM = re.compile(r"[0-9=_+/]|[a-z][A-Z]|[A-Z]{2}[a-z]")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", re.DOTALL)
_WEBHOOK = re.compile(
    r"(?i)(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
    r"|webhook\.office\.com/|outlook\.office(?:365)?\.com/webhook/|api\.telegram\.org/bot|hooks\.zapier\.com/hooks/"
    r"|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook/|/webhook/send\?key="
    r"|/hooks/(?=[\w/]{16}))(?!\*{9})([^\s\"'<>,)]+)"
)
_KNOWN_TOKEN = re.compile(
    r"(?<![\w\-])(?:[\w\-]{0,60}-)?eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*(?:\.[\w\-]+){0,2}|\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}"
    r"|xox[abpors]-[\w\-]{10,}|AIza[\w\-]{30,}|dapi[0-9a-f]{32}|AKIA[0-9A-Z]{16}"
    r"|cp_(?:agent|viewer|operator|admin)_[\w\-]{43})"
)


def compile_regex(regex: str | None) -> Pattern[str]:
    """The session's `spark.redaction.regex`; Spark's default if it is absent or not valid in Python."""
    try:
        return re.compile(regex or DEFAULT_REGEX)
    except re.error:
        return re.compile(DEFAULT_REGEX)


DEFAULT = compile_regex(None)


def may_hold_secret(text: str | bytes) -> bool:
    """Whether a text, or a line of JSON, has a word of a form that holds a secret. Cheap: most have none."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    low = text.lower()
    for hint in HINTS:
        if hint in low:
            return True
    if ("//" in low or "%2f%2f" in low) and any(sign in low for sign in _AT):
        return True
    if "@" in low and SLASH_HINT.search(low) is not None:
        return True
    return "key" in low and KEY_HINT.search(low) is not None


def redact(text: str, secret_key: Pattern[str] = DEFAULT) -> str:
    """Mask the secrets of a text, and cut a long one.

    A text over MAX_TEXT_CHARS loses its middle: the last lines of a Java stack trace contain the root cause.
    """
    if len(text) > MAX_TEXT_CHARS:
        half = MAX_TEXT_CHARS // 2
        text = text[:half] + "\n… %d characters left out …\n" % (len(text) - 2 * half) + text[-half:]
    return mask(text, secret_key)


def redact_json(text: str, secret_key: Pattern[str] = DEFAULT) -> str:
    """JSON with its secrets masked; unchanged, to the byte, where it holds none."""
    if not may_hold_secret(text) and (_is_default(secret_key) or not secret_key.search(text)):
        return text
    document = wire.loads(text)
    masked = redact_values(document, lambda value: mask(value, secret_key), secret_key)
    return text if masked == document else wire.dumps(masked)


def redact_values(
    value: Any, redacted: Callable[[str], str], secret_key: Pattern[str] = DEFAULT, key: str = ""
) -> Any:
    """A JSON value with `redacted` applied to every text, and texts of secret keys masked whole."""
    if isinstance(value, str):
        return REDACTED if key and _is_secret(key, value, secret_key) else redacted(value)
    if isinstance(value, dict):
        return {name: redact_values(each, redacted, secret_key, name) for name, each in value.items()}
    if isinstance(value, list):
        return [redact_values(each, redacted, secret_key, key) for each in value]
    return value


def mask(text: str, secret_key: Pattern[str] = DEFAULT) -> str:
    """Mask the secrets of a text of any length."""
    if not may_hold_secret(text) and (_is_default(secret_key) or not secret_key.search(text)):
        return text
    text = _PEM.sub(REDACTED, text)
    text = _WEBHOOK.sub(lambda found: f"{found[1]}{REDACTED}", text)
    text = _ENCODED_USER_INFO.sub(lambda found: found[1] + REDACTED + "%40", _USER_INFO.sub("", text))
    text = _TOKEN_INFO.sub(lambda found: found[1], text)
    for pattern in (_ORACLE, _ENCODED_ORACLE, _USER_SECRET, _PHRASE, _SQL):
        text = pattern.sub(lambda found: found[1] + REDACTED, text)
    text = _COOKIES.sub(lambda found: found[found.lastindex or 0] + REDACTED, text)
    text = _COOKIE.sub(lambda found: found[1] + REDACTED, text)
    text = _HEADER.sub(_header, text)
    text = _KNOWN_TOKEN.sub(REDACTED, text)
    for pattern, key, value in ((_TUPLE, 3, 6), (_XML, 1, 3), (_XML_PROPERTY, 2, 4), (_OPTION, 2, 4)):
        text = pattern.sub(lambda found, k=key, v=value: _group_masked(found, k, v, secret_key), text)  # type: ignore[misc]
    return _masked(text, secret_key)


def _is_default(secret_key: Pattern[str]) -> bool:
    return secret_key.pattern == DEFAULT_REGEX


def _is_secret(key: str, value: str, secret_key: Pattern[str]) -> bool:
    """Whether the value of this key is a secret."""
    key, value = key[-MAX_KEY_CHARS:], value.strip("\\\"' \t\r\n")
    if _HARMLESS_VALUE.fullmatch(value):
        return False
    if not _may_be_secret(key, secret_key):
        return False
    if not _is_default(secret_key) and secret_key.search(key):
        return True
    if _NUMBER.fullmatch(value) and not _STRONG_KEY.search(key):
        return False  # an offset of a topic, or a count
    return not (key in _DIRECTORIES and value.startswith("/"))


def _may_be_secret(key: str, secret_key: Pattern[str]) -> bool:
    """Whether the key alone allows that its value is a secret."""
    key = key[-MAX_KEY_CHARS:]
    if not _is_default(secret_key) and secret_key.search(key):
        return True
    return _SECRET_KEY.search(key) is not None and _HARMLESS_KEY.search(key) is None


def _header(found: Match[str]) -> str:
    if not _LOOKS_RANDOM.search(found[3]):
        return found[0]  # "basic authentication failed"
    return found[1] + found[2] + REDACTED


def _group_masked(found: Match[str], key: int, value: int, secret_key: Pattern[str]) -> str:
    if not _is_secret(found[key], found[value], secret_key):
        return found[0]
    start, end = found.span(value)
    return found[0][: start - found.start()] + REDACTED + found[0][end - found.start() :]


def _masked(text: str, secret_key: Pattern[str]) -> str:
    """Mask secret values, also inside the values of other keys, such as `url=…?password=…`."""
    kept, at = [], 0
    found = _KEY.search(text)
    while found is not None:
        end = found.end()
        if found.group("is"):
            value = _value_of(text, found, secret_key)
            if value is not None:
                kept += [text[at:end], REDACTED]
                at = end = value
        found = _KEY.search(text, end)
    return "".join(kept) + text[at:]


def _value_of(text: str, found: Match[str], secret_key: Pattern[str]) -> int | None:
    """Where the secret value of a key ends; None where it is no secret."""
    key, end = found.group("key"), found.end()
    if not _may_be_secret(key, secret_key) or (key in _DIRECTORIES and text.startswith("/", end)):
        return None  # before its value is read: values of harmless keys may hold further keys
    value = (_ENCODED_VALUE if "%3" in found.group("is") else _VALUE).match(text, end)
    if value is None or not _is_secret(key, value.group(), secret_key):
        return None
    if value.group()[0] in "\"'\\" or not _STRONG_KEY.search(key):
        return value.end()
    begins_entry = _BEGINS_ENTRY.search(text, max(0, found.start() - 40), found.start())
    more = _CONTINUATION.match(text, value.end()) if begins_entry else None
    return more.end() if more else value.end()
