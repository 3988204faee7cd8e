"use strict";
// The same computation as answer.go; TestBrowser compares the two. Intervals are [value, low, high].
const SPACE = 0.8;
const pick = (i, b) => [i.value, i.low, i.high][b];

function needs(c, r, years, b) {
	const people = r.people * Math.pow(1 + r.people_growth, years);
	const work = people * r.active * r.heavier;
	const out = [];
	for (const x of c.costs) {
		const slope = pick(x.slope, b), fixed = pick(x.fixed, b);
		switch (x.name) {
		case "cpu_cores":
			out.push(["processors", x.unit, x.from, slope * work * r.features * (1 + (r.replicas - 1) * pick(c.replica, b)), r.processors * r.target - fixed]);
			break;
		case "memory_mb":
			out.push(["memory", x.unit, x.from, slope * people * r.active, r.memory_gb * 1000 - fixed]);
			break;
		case "disk_write_mb_s":
			out.push(["disk writes", x.unit, x.from, slope * work * r.replicas, r.disk_mb_s * r.target - fixed]);
			break;
		case "disk_read_mb_s":
			out.push(["disk reads", x.unit, x.from, slope * work, r.disk_mb_s * r.target - fixed]);
			break;
		case "network_kb_s":
			out.push(["network", x.unit, x.from, slope * work * r.replicas, r.network_mbit * 125 * r.target - fixed]);
		}
	}
	out.push(["disk space", "GB", "request", people * r.mailbox_mb / 1000 * Math.pow(1 + r.mailbox_growth, years) * r.replicas, r.disk_gb * SPACE]);
	if (r.p99_ms > 0) {
		let most = 0;
		for (const l of c.loads || []) {
			if (l.p99_ms > r.p99_ms) break;
			most = l.users;
		}
		out.push(["p99", "users", "the most users within " + r.p99_ms + " ms", work, most * r.processors / Math.max(1, c.processors)]);
	}
	return out;
}

const count = (need, room) => room <= 0 ? Infinity : Math.max(1, Math.ceil(need / room - 1e-9));

function plan(c, r) {
	const servers = [], limits = [];
	let deciding = "the number of replicas";
	for (let b = 0; b < 3; b++) {
		servers[b] = r.replicas;
		needs(c, r, r.years, b).forEach(([name, unit, from, need, room], i) => {
			const n = count(need, room);
			limits[i] = limits[i] || { name, unit, from, need: [], room: [], servers: [], full: -1 };
			limits[i].need[b] = need;
			limits[i].room[b] = room;
			limits[i].servers[b] = n;
			if (n > servers[b] && b === 0) deciding = name;
			servers[b] = Math.max(servers[b], n);
		});
	}
	const left = servers[0], n = left + r.survive, cpu = c.costs.find((x) => x.name === "cpu_cores");
	for (let tenth = 0; tenth <= 200; tenth++) {
		needs(c, r, tenth / 10, 0).forEach(([, , , need, room], i) => {
			if (limits[i].full < 0 && need > room * left * (1 + 1e-9)) limits[i].full = tenth / 10;
		});
	}
	const active = r.people * Math.pow(1 + r.people_growth, r.years) * r.active;
	const use = [], after = [];
	for (let b = 0; b < 3; b++) {
		const need = needs(c, r, r.years, b)[0][3], fixed = pick(cpu.fixed, b);
		use[b] = (need / n + fixed) / r.processors * 100;
		after[b] = (need / left + fixed) / r.processors * 100;
	}
	return { servers: servers.map((x) => x + r.survive), deciding, limits, active, use, after,
		partitions: Math.max(1, Math.ceil(active / left / r.per_partition)), price: (n) * r.price,
		extrapolated: active * r.heavier / left > c.max_load * r.processors / Math.max(1, c.processors) * 1.05 };
}

// Sliders: name, label, least, most, step, and whether the scale is logarithmic.
const SLIDERS = [
	["people", "People", 10, 200000, 1, true], ["active", "Active in 15 minutes", 0.05, 1, 0.01],
	["heavier", "Heavier than the workload", 0.25, 16, 0.05, true], ["features", "Features that were off (CPU factor)", 0.5, 4, 0.05],
	["mailbox_mb", "Mail file, MB", 10, 100000, 1, true], ["people_growth", "Growth of people a year", -0.2, 0.5, 0.01],
	["mailbox_growth", "Growth of mail files a year", 0, 1, 0.01], ["years", "Years", 0, 10, 0.5],
	["replicas", "Replicas of a mail file", 1, 6, 1], ["survive", "Servers that may fail", 0, 5, 1],
	["target", "Use at most", 0.2, 0.95, 0.01], ["p99_ms", "p99 within, ms (0: any)", 0, 2000, 10],
	["processors", "Processors of a server", 1, 128, 1], ["memory_gb", "Memory, GB", 1, 1024, 1, true],
	["disk_gb", "Disk, GB", 50, 100000, 10, true], ["disk_mb_s", "Disk, MB/s", 10, 10000, 10, true],
	["network_mbit", "Network, Mbit/s", 10, 100000, 10, true], ["per_partition", "Active users of a partition", 100, 10000, 100],
	["price", "Price of a server", 0, 100000, 100]];

const format = (v) => {
	if (!Number.isFinite(v)) return "∞";
	const a = Math.abs(v);
	if (a >= 1000) return Math.round(v).toLocaleString("en");
	return Number.isInteger(v) || a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : a === 0 ? "0" : a >= 0.1 ? v.toFixed(2).replace(/\.00$/, "") : v.toPrecision(2);
};
const span = ([v, l, h]) => h > l ? format(v) + " (" + format(l) + " to " + format(h) + ")" : format(v);

function start(c, r) {
	const by = (id) => document.getElementById(id);
	const set = (id, text) => { by(id).textContent = text; };
	const show = () => {
		const t0 = performance.now();
		if (r.survive >= r.replicas) r.replicas = Math.min(6, r.survive + 1);
		for (const [name, , lo, hi, , log] of SLIDERS) {
			set("v-" + name, ["active", "people_growth", "mailbox_growth", "target"].includes(name) ? Math.round(r[name] * 100) + " %" : format(r[name]));
			by("s-" + name).value = log ? Math.log(Math.max(r[name], lo) / lo) / Math.log(hi / lo) * 1000 : r[name];
		}
		const a = plan(c, r);
		const two = (id, i, unit) => {
			set(id, format(i[0]) + unit);
			set(id + "-i", i[2] > i[1] ? ", " + format(i[1]) + " to " + format(i[2]) : "");
		};
		two("servers", a.servers, "");
		set("deciding", a.deciding + " decides");
		two("use", a.use, " %");
		two("after", a.after, " %");
		set("active", format(a.active));
		set("partitions", format(a.partitions));
		set("price", r.price > 0 ? format(a.price) : "–");
		by("extrapolated").hidden = !a.extrapolated;
		const rows = by("limits");
		rows.textContent = "";
		for (const l of a.limits) {
			const tr = rows.insertRow();
			for (const text of [l.name, span(l.need) + " " + l.unit, format(l.room[0]), span(l.servers),
				l.full < 0 ? "–" : l.full.toFixed(1) + " years", l.from]) {
				const td = tr.insertCell();
				td.textContent = text;
				if (text === l.from) td.className = "words";
			}
			const bar = tr.insertCell(), part = document.createElement("div");
			part.className = "fill";
			part.style.width = Math.min(100, l.servers[0] / Math.max(1, a.servers[0]) * 100) + "%";
			bar.className = "track";
			bar.append(part);
		}
		document.documentElement.dataset.ms = String(performance.now() - t0);
	};
	for (const [name, label, lo, hi, step, log] of SLIDERS) {
		const row = document.createElement("label"), input = document.createElement("input"), out = document.createElement("output");
		row.append(label, out, input);
		out.id = "v-" + name;
		Object.assign(input, { id: "s-" + name, type: "range", min: log ? 0 : lo, max: log ? 1000 : hi, step: log ? 1 : step });
		input.addEventListener("input", () => {
			const v = Number(input.value);
			r[name] = log ? Math.round(lo * Math.pow(hi / lo, v / 1000) / step) * step : v;
			show();
		});
		by("sliders").append(row);
	}
	show();
}
if (typeof document !== "undefined") start(CALIBRATION, REQUEST);
