"""Says what libopendmarc makes of a corpus: JSON in, JSON out."""
import ctypes
import json
import sys

lib = ctypes.CDLL("libopendmarc.so.2")
lib.opendmarc_policy_connect_init.restype = ctypes.c_void_p
if lib.opendmarc_tld_read_file(b"/usr/share/publicsuffix/public_suffix_list.dat", b"//", b"*.", b"!") != 0:
    sys.exit("no list of public suffixes")
NAMES = {14: "none", 15: "pass", 16: "reject", 17: "quarantine", 18: "fail"}


def outcome(passed):
    return 1 if passed else 2


def ask(q):
    if not q["record"]:
        return "none"
    p = ctypes.c_void_p(lib.opendmarc_policy_connect_init(b"192.0.2.1", 0))
    author = q["from"].encode()
    lib.opendmarc_policy_store_from_domain(p, author)
    lib.opendmarc_policy_store_spf(p, q["spf_domain"].encode(), outcome(q["spf"]), 1, None)
    for domain, passed in zip(q["dkim_domains"], q["dkim"]):
        lib.opendmarc_policy_store_dkim(p, domain.encode(), b"k", outcome(passed), None)
    lib.opendmarc_policy_store_dmarc(p, q["record"].encode(), author, q["organization"].encode() or None)
    answer = lib.opendmarc_get_policy_to_enforce(p)
    lib.opendmarc_policy_connect_shutdown(p)
    return NAMES.get(answer, str(answer))


json.dump([ask(q) for q in json.load(sys.stdin)], sys.stdout)
