# What the scripts in the folder scripts share: free ports, and Debian's Postfix on loopback. The program puts this text
# before that of a script; a script that is run by itself reads this file.

taken=' '
port() { # port: sets port to a free one below those of outgoing connections
	while :; do
		port=$((10000 + RANDOM % 22000))
		case $taken in *" $port "*) continue ;; esac
		(: </dev/tcp/127.0.0.1/$port) 2>/dev/null || break
	done
	taken="$taken$port "
}

above() { # above DIR: ends the script unless every folder above is open to the daemons, which run under other accounts
	local at=$1
	while [ "$at" != / ]; do
		[ "$(stat -c %a "$at" | tail -c 2)" -ge 1 ] || { echo "$at is closed to the daemons: chmod o+x $at" >&2; exit 1; }
		at=$(dirname "$at")
	done
}

# postfix_start DIR SMTP LMTP: starts Postfix at the port SMTP. It delivers mail for test.example at the port LMTP. The
# standard input has the lines of main.cf that say who may send.
postfix_start() {
	mkdir -p "$1"/{conf,spool,data}
	chown postfix "$1/data"
	cat - /dev/fd/3 3<<END >"$1/conf/main.cf"
compatibility_level = 3.6
queue_directory = $1/spool
data_directory = $1/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.test.example
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
maillog_file = $1/postfix.log
maillog_file_prefixes = $1
virtual_mailbox_domains = test.example
virtual_mailbox_maps = static:ok
virtual_transport = lmtp:inet:127.0.0.1:$3
smtpd_client_connection_count_limit = 0
disable_dns_lookups = yes
smtp_host_lookup = native
message_size_limit = 50000000
virtual_mailbox_limit = 0
alias_maps =
alias_database =
END
	sed -E "s/^smtp      inet  n       -       y/127.0.0.1:$2 inet  n       -       n/; s/^([a-z]+ +(unix|fifo) +[-ny] +[-ny] +)y /\\1n /" \
		/usr/share/postfix/master.cf.dist >"$1/conf/master.cf"
	postfix -c "$1/conf" start </dev/null >/dev/null 2>&1 || { tail -5 "$1/postfix.log" >&2; exit 1; }
}

postfix_stop() { # postfix_stop DIR: stops the Postfix that postfix_start has started, if it runs
	if [ -e "$1/spool/pid/master.pid" ]; then postfix -c "$1/conf" stop >/dev/null 2>&1 || true; fi
}
