"""Says what Debian's pyspf and dkimpy make of a corpus: JSON in, JSON out."""
import base64
import json
import sys

import dkim
import spf

corpus = json.load(sys.stdin)
zone = corpus["zone"]


def look_up(name, kind, *_):
    name = name.rstrip(".").lower()
    out = []
    for have, value in zone.get(name, []):
        if have != kind:
            continue
        if kind == "TXT":
            value = [value.encode()]
        elif kind == "MX":
            preference, host = value.split()
            value = (int(preference), host)
        out.append(((name, kind), value))
    return out


spf.DNSLookup = look_up


def text(name, timeout=5):
    found = look_up(name.decode() if isinstance(name, bytes) else name, "TXT")
    return found[0][1][0] if found else None


def verdict(message):
    d = dkim.DKIM(message)
    out = []
    for i in range(message.lower().count(b"dkim-signature:")):
        try:
            out.append(bool(d.verify(idx=i, dnsfunc=text)))
        except dkim.DKIMException:
            out.append(False)
    return out


def signed(job):
    message = base64.b64decode(job["message"])
    head, body = job["canon"].encode().split(b"/")
    algorithm = job["algorithm"].encode()
    return base64.b64encode(dkim.sign(
        message, job["selector"].encode(), b"example.com", job["key"].encode(), canonicalize=(head, body),
        signature_algorithm=algorithm, include_headers=[b"from", b"subject", b"to"]) + message).decode()


json.dump({
    "spf": [spf.check2(i=q["ip"], s=q["sender"], h=q["helo"])[0] for q in corpus["spf"]],
    "dkim": [verdict(base64.b64decode(m)) for m in corpus["dkim"]],
    "signed": [signed(j) for j in corpus["sign"]],
}, sys.stdout)
