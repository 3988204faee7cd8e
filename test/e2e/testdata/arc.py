"""Seals and checks messages with dkimpy: JSON in, JSON out."""
import base64
import json
import sys

import dkim

q = json.load(sys.stdin)
message = base64.b64decode(q["message"])
keys = {name.encode(): text.encode() for name, text in q["records"].items()}


def lookup(name, timeout=5):
    return keys.get(name.rstrip(b"."))


answer = {}
if q["seal"]:
    fields = dkim.arc_sign(message, b"s", q["domain"].encode(), q["key"].encode(), q["host"].encode())
    answer["sealed"] = base64.b64encode(b"".join(fields) + message).decode()
else:
    cv, results, reason = dkim.arc_verify(message, dnsfunc=lookup)
    answer["cv"], answer["sets"], answer["reason"] = (cv or b"").decode(), len(results), reason
json.dump(answer, sys.stdout)
