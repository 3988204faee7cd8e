// Package lab sets up the server configurations of document 004 ("Domino clusters, part 1") and the partitions of
// document 001 on this machine. It starts real server processes, each with its own data folder and ports on loopback,
// in a cluster where the document has one, and places the mail files of the users as the document does. A file
// describes the result, so that other processes can find it.
package lab

import (
	"fmt"
	"strings"
	"time"
)

// Configuration is one configuration of a document.
type Configuration struct {
	Name, Title string
	// Words describe it, and its differences from the document.
	Words string
	// Roles are the roles of its servers, in order.
	Roles []Role
	// Clustered means that all servers are in one cluster. Otherwise each has its own domain and routes mail to the
	// others.
	Clustered bool
	// Pairs means that a mail file has replicas on its home and on the last server only, otherwise on every server.
	Pairs bool
	// Abroad means that users write only to users of other servers.
	Abroad bool
	// Workload and Users are the workload and the number of users of the document.
	Workload string
	Users    int
}

// Role describes the part of one server in a configuration.
type Role struct {
	Name string
	// Share is the server's relative share of the users; 0 is a standby server.
	Share int
	// Disk is the time that is added to each flush of the disk.
	Disk time.Duration
	// Cache is the number of databases that stay open in memory; 0 is the server's default.
	Cache int
}

// names are the names of the servers, in order.
var names = []string{"one", "two", "three", "four", "five", "six"}

// The values of the field case. In the document a disk transfer took 108 ms where 10 to 30 ms is good, and the database
// cache had room for 723 of 2,650 open databases.
const (
	fieldDisk  = 100 * time.Millisecond
	fieldCache = 20
)

// All returns the configurations.
func All() []Configuration {
	list := []Configuration{
		{
			Name: "config1", Title: "scenario 1, config 1: a single server with no cluster",
			Words:    "One server, all people on it, no mail leaves it.",
			Roles:    active(1),
			Workload: "geoplex-medium", Users: 100,
		}, {
			Name: "config2", Title: "scenario 1, config 2: users on two servers, no cluster",
			Words: "Users are equally divided between two servers, again with no cluster. Each server transfers all " +
				"mail messages to the other:\n" +
				"people write to those of the other server alone, and the router sends it there by SMTP.",
			Roles: active(2), Abroad: true,
			Workload: "geoplex-medium", Users: 100,
		}, {
			Name: "config3", Title: "scenario 1, config 3: an active server and a standby in a cluster",
			Words: "Two servers in a cluster. All users are on the active server; the standby's only load is " +
				"cluster replication. All mail is for\n" +
				"people of the active server, which replicates every database to the standby.",
			Roles: standby(1), Clustered: true,
			Workload: "geoplex-medium", Users: 100,
		}, {
			Name: "config4", Title: "scenario 1, config 4: two active servers in a cluster",
			Words: "Two servers in a cluster, both active. Users of the first send mail to users of the second and " +
				"the other way round, and every\n" +
				"database is on both. (Here the server that takes a message puts it into its own replica of the " +
				"mail file: nothing is routed.)",
			Roles: active(2), Clustered: true, Abroad: true,
			Workload: "geoplex-medium", Users: 100,
		},
	}
	for _, mates := range []int{2, 4, 5} {
		list = append(list, Configuration{
			Name:  fmt.Sprintf("replicators-%d", mates),
			Title: fmt.Sprintf("scenario 2: one active server and %d standby servers", mates),
			Words: fmt.Sprintf("%d servers in a cluster; only one has users, and replicates every database to the "+
				"%d others. --replicators sets how many\n"+
				"Cluster Replicators it has for each of them: the document ran one, and as many as there are "+
				"standby servers (in all).", mates+1, mates),
			Roles: standby(mates), Clustered: true,
			Workload: "geoplex-medium", Users: 100,
		})
	}
	for _, n := range []int{2, 3, 4} {
		list = append(list, Configuration{
			Name:  fmt.Sprintf("partitions-%d", n),
			Title: fmt.Sprintf("document 001: %d partitions of one machine", n),
			Words: fmt.Sprintf("%d servers that share the machine and no data, with equal numbers of people, who "+
				"write to each other: the router\n"+
				"sends by SMTP what is for people of another partition. config1 is one partition.", n),
			Roles:    active(n),
			Workload: "r6mail", Users: 100,
		})
	}
	return append(list, Configuration{
		Name: "pulse", Title: "scenario 3: single messages to 50 people, four standby servers",
		Words: "One active server and four standby servers, as in scenario 2, with a message to 50 users of the " +
			"active server now and then: a\n" +
			"pulse that every replica has to follow. --replicators makes the bands narrower, or not.",
		Roles: standby(4), Clustered: true,
		Workload: "pulse", Users: 100,
	}, Configuration{
		Name: "field",
		Title: "scenario 4, from the field: two active servers, one standby with a slow disk and a small database " +
			"cache",
		Words: "Three servers: one and two are active, and each replicates its mail files to three, the standby, " +
			"alone. One has twice the people\n" +
			"of two. The flushes of three's disk take 100 ms longer (--slow-disk), and 20 databases stay open in " +
			"its memory (--db-cache): the\n" +
			"work queues of one and two grow. What mends it: --slow-disk 5ms, --replicators 4, --db-cache 10000.",
		Roles: []Role{{Name: "one", Share: 2}, {Name: "two", Share: 1},
			{Name: "three", Disk: fieldDisk, Cache: fieldCache}}, Clustered: true, Pairs: true,
		Workload: "r4mail", Users: 300,
	})
}

// active returns n servers with equal shares of the users.
func active(n int) []Role {
	out := make([]Role, n)
	for i := range out {
		out[i] = Role{Name: names[i], Share: 1}
	}
	return out
}

// standby returns one active server and n standby servers.
func standby(n int) []Role {
	out := active(n + 1)
	for i := 1; i <= n; i++ {
		out[i].Share = 0
	}
	return out
}

// Named returns the configuration with the given name.
func Named(name string) (Configuration, error) {
	var all []string
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
		all = append(all, c.Name)
	}
	return Configuration{}, fmt.Errorf("no configuration %q: want one of %s", name, strings.Join(all, ", "))
}

// home returns the index of a person's home, the server that leads his mail file. Any first n people are divided in the
// proportions of the roles.
func (c *Configuration) home(person int) int {
	all := 0
	for _, r := range c.Roles {
		all += r.Share
	}
	n := person % max(all, 1)
	for i, r := range c.Roles {
		if n -= r.Share; n < 0 {
			return i
		}
	}
	return 0
}

// replicas returns the indexes of the servers that hold a person's mail file, the home first.
func (c *Configuration) replicas(person int) []int {
	home := c.home(person)
	out := []int{home}
	for i := range c.Roles {
		if i != home && c.Clustered && (!c.Pairs || i == len(c.Roles)-1) {
			out = append(out, i)
		}
	}
	return out
}
