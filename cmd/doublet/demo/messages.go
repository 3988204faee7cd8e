package demo

import "time"

// person is one of the three, or a correspondent elsewhere.
type person struct{ name, address string }

var (
	alice = person{"Alice Liddell", "alice@example.com"}
	bob   = person{"Bob Cratchit", "bob@example.com"}
	carol = person{"Carol Müller-Ångström", "carol@example.com"}
	team  = person{"Team", "team@example.com"}

	shop   = person{"Hölzl & Söhne Buchhandlung", "service@buchhandlung.example.net"}
	kenji  = person{"田中 健二", "kenji@tanaka.example.org"}
	spam   = person{"W1NNER Dept.", "prize@lottery.example.biz"}
	digest = person{"Domino Tiles Digest", "digest@lists.example.net"}
)

// message is a sample message. ago is its age at the time of Fill; reply is the key of the message that it answers.
type message struct {
	key, reply string
	from       person
	to, cc     []person
	subject    string
	ago        time.Duration
	text, html string
	picture    bool
	// seen lists the people who have read it, flagged those who have flagged it. move is the folder to which recipients
	// have moved it.
	seen, flagged []person
	answered      []person
	move          string
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

func all(p ...person) []person { return p }

// sent are the messages of the last two weeks, oldest first.
var sent = []message{
	{key: "welcome", from: alice, to: all(team), subject: "Welcome to Doublet", ago: 13*day + 5*hour,
		seen: all(alice, bob, carol), flagged: all(bob),
		text: "Hello both,\n\nour new server is up. Your mail, your folders, your flags: all in one place, and it " +
			"keeps what it has once said yes to.\n\n" +
			"Reach it with any mail program: IMAP for reading, submission for sending. The password is the one on " +
			"the sticker. Change it.\n\nAlice\n",
		html: "<p>Hello both,</p><p>our new server is up. Your mail, your folders, your <b>flags</b>: all in one " +
			"place, and it keeps what it has once said yes to.</p><p>Reach it with any mail program: <i>IMAP</i> " +
			"for reading, <i>submission</i> for sending. The password is the one on the sticker. Change " +
			"it.</p><p>Alice</p>"},
	{key: "welcome2", reply: "welcome", from: bob, to: all(alice), cc: all(carol), subject: "Re: Welcome to Doublet",
		ago: 13*day + 4*hour, seen: all(alice, carol), answered: all(alice),
		text: "> The password is the one on the sticker. Change it.\n\nWhich sticker? I have eleven.\n\nBob\n"},
	{key: "welcome3", reply: "welcome2", from: alice, to: all(bob), cc: all(carol), subject: "Re: Welcome to Doublet",
		ago: 13*day + 3*hour, seen: all(bob, carol),
		text: "The yellow one. The others are from the old servers, please let them go.\n\nA.\n"},
	{key: "order", from: shop, to: all(carol), subject: "Ihre Bestellung Nr. 4711 ist unterwegs", ago: 12*day + 9*hour,
		seen: all(carol), move: "Archive",
		text: "Sehr geehrte Frau Müller-Ångström,\n\n" +
			"„Der Prozeß“ und „Größe und Grenzen“ sind heute an Sie abgegangen. Lieferung voraussichtlich " +
			"übermorgen.\n\nMit freundlichen Grüßen\nHölzl & Söhne\n"},
	{key: "plan", from: carol, to: all(team), subject: "Plan for the garden party", ago: 12*day + 2*hour,
		seen: all(alice, bob), flagged: all(alice),
		text: "Dear all,\n\nthe party is on Saturday in two weeks. Needed: tables (Bob), lights (Alice), a cake in " +
			"the shape of a domino (me).\n\nWho brings music?\n\nCarol\n"},
	{key: "plan2", reply: "plan", from: bob, to: all(team), subject: "Re: Plan for the garden party",
		ago: 12*day + 1*hour, seen: all(alice, carol),
		text: "Tables: yes, four of them. Music: I play the accordion. You have been warned.\n\nBob\n"},
	{key: "plan3", reply: "plan2", from: alice, to: all(team), subject: "Re: Plan for the garden party",
		ago: 11*day + 22*hour, seen: all(bob, carol),
		text: "Lights: yes. Accordion: only after nine.\n\nAlice\n"},
	{key: "tokyo", from: kenji, to: all(alice), subject: "東京からこんにちは", ago: 11*day + 3*hour, seen: all(alice),
		answered: all(alice),
		text:     "アリスさん、こんにちは。\n\n来月ロンドンへ行きます。お会いできたら嬉しいです。\n\n田中 健二\n"},
	{key: "tokyo2", reply: "tokyo", from: alice, to: all(kenji), subject: "Re: 東京からこんにちは", ago: 10*day + 20*hour,
		text: "健二さん\n\nWonderful! Come to the garden party, it is in the same week.\n\nAlice\n"},
	{key: "digest1", from: digest, to: all(bob), subject: "[domino-tiles] Digest, issue 118", ago: 10*day + 6*hour,
		seen: all(bob), move: "Lists/Domino Tiles",
		text: "Today's topics:\n\n  1. How many dominoes fall in a minute? (W. Mozart)\n" +
			"  2. Double nines: are they worth it? (S. Ada)\n  3. Re: The longest chain of 2026\n"},
	{key: "photo", from: carol, to: all(alice, bob), subject: "The cake, first try (picture)", ago: 9*day + 4*hour,
		seen: all(alice), flagged: all(alice), picture: true,
		text: "It fell over. Like a domino. See the picture of what it should have been.\n\nCarol\n",
		html: "<p>It fell over. Like a domino. See the picture of what it <em>should</em> have been.</p><p>Carol</p>"},
	{key: "photo2", reply: "photo", from: alice, to: all(carol), cc: all(bob),
		subject: "Re: The cake, first try (picture)", ago: 9*day + 3*hour, seen: all(carol),
		text: "Still looks delicious. I would eat either half.\n\nAlice\n"},
	{key: "prize", from: spam, to: all(bob, alice), subject: "CONGRATULATIONS!!! You have WON 1.000.000",
		ago: 8*day + 13*hour, move: "Junk",
		text: "Dear Beneficiary,\n\nyour e-mail address has won. To claim, send us only your bank details, your " +
			"shoe size and a photograph of your front door key.\n",
		html: "<p><font size=\"7\" color=\"red\">Dear Beneficiary,</font></p><p>your e-mail address has won. To " +
			"claim, send us only your bank details, your shoe size and a photograph of your front door key.</p>"},
	{key: "budget", from: alice, to: all(bob), subject: "Budget of the third quarter", ago: 7*day + 6*hour,
		seen: all(bob), answered: all(bob),
		text: "Bob,\n\ncan you look over the figures before Thursday?\n\n  tables      120.00\n  lights       80.50\n" +
			"  cake         45.00\n  accordion    priceless\n\nAlice\n"},
	{key: "budget2", reply: "budget", from: bob, to: all(alice), subject: "Re: Budget of the third quarter",
		ago: 7*day + 2*hour, seen: all(alice),
		text: "They add up, except for the accordion.\n\nBob\n"},
	{key: "budget3", reply: "budget2", from: alice, to: all(bob), subject: "Re: Budget of the third quarter",
		ago: 7*day + 1*hour, seen: all(bob),
		text: "That is what priceless means.\n\nA.\n"},
	{key: "digest2", from: digest, to: all(bob), subject: "[domino-tiles] Digest, issue 119", ago: 6*day + 6*hour,
		move: "Lists/Domino Tiles",
		text: "Today's topics:\n\n  1. Re: Double nines: are they worth it? (B. Cratchit)\n  2. Ivory or bakelite?\n"},
	{key: "train", from: person{"Trains of Europe", "tickets@trains.example.net"}, to: all(carol),
		subject: "Your ticket Köln – Malmö", ago: 5*day + 9*hour, seen: all(carol), flagged: all(carol),
		text: "Departure  08:47  Köln Hbf      platform 5\nArrival    20:12  Malmö Central\n\n" +
			"Seat 61, coach 12, quiet zone. Gute Reise! Trevlig resa!\n"},
	{key: "lunch", from: bob, to: all(carol), subject: "Lunch?", ago: 4*day + 3*hour, seen: all(carol),
		answered: all(carol),
		text:     "12:30, the place with the noodles?\n"},
	{key: "lunch2", reply: "lunch", from: carol, to: all(bob), subject: "Re: Lunch?",
		ago: 4*day + 2*hour + 30*time.Minute, seen: all(bob),
		text: "12:45 and you have a deal.\n"},
	{key: "backup", from: alice, to: all(team), subject: "Maintenance on Sunday, 06:00 to 06:01", ago: 3*day + 7*hour,
		seen: all(bob),
		text: "The server will be restarted. It takes half a second; I announce a minute to be on the safe side.\n\n" +
			"Alice\n"},
	{key: "backup2", reply: "backup", from: carol, to: all(alice), subject: "Re: Maintenance on Sunday, 06:00 to 06:01",
		ago:  3*day + 6*hour,
		text: "What shall we do with the other 59.5 seconds?\n\nCarol\n"},
	{key: "minutes", from: carol, to: all(team), subject: "Minutes: garden party, second meeting", ago: 2*day + 5*hour,
		seen: all(alice),
		text: "Present: all. Decided:\n\n- cake: second try, with scaffolding\n- lights: warm white\n" +
			"- accordion: two pieces, no encore\n\nNext meeting: Friday.\n",
		html: "<h2>Minutes</h2><p>Present: all. Decided:</p><ul><li>cake: second try, with " +
			"scaffolding</li><li>lights: warm white</li><li>accordion: two pieces, no encore</li></ul><p>Next " +
			"meeting: <b>Friday</b>.</p>"},
	{key: "minutes2", reply: "minutes", from: bob, to: all(team), subject: "Re: Minutes: garden party, second meeting",
		ago:  2*day + 4*hour,
		text: "I remember three pieces and at least one encore.\n\nBob\n"},
	{key: "translate", from: kenji, to: all(alice), subject: "Re: 東京からこんにちは", reply: "tokyo2", ago: 1*day + 20*hour,
		text: "ガーデンパーティー、楽しみにしています！\n\nI will bring a mahjong set. It is almost dominoes.\n\n健二\n"},
	{key: "digest3", from: digest, to: all(bob), subject: "[domino-tiles] Digest, issue 120", ago: 1*day + 6*hour,
		text: "Today's topics:\n\n  1. Ivory or bakelite? The vote\n  2. A doublet explained to a child\n"},
	{key: "invoice", from: shop, to: all(carol), subject: "Rechnung 2026-0815 über 38,90 €", ago: 22 * hour,
		text: "Sehr geehrte Frau Müller-Ångström,\n\n" +
			"anbei die Rechnung über 38,90 €, zahlbar bis zum Monatsende. Vielen Dank für Ihren Einkauf!\n\n" +
			"Hölzl & Söhne\n"},
	{key: "cake", from: carol, to: all(team), subject: "The cake, second try (picture)", ago: 5 * hour, picture: true,
		text: "It stands!\n\nCarol\n", html: "<p>It <b>stands</b>!</p><p>Carol</p>"},
	{key: "cake2", reply: "cake", from: bob, to: all(carol), cc: all(alice),
		subject: "Re: The cake, second try (picture)", ago: 4 * hour,
		text: "Nobody move.\n\nBob\n"},
	{key: "today", from: alice, to: all(bob), subject: "Tables", ago: 40 * time.Minute,
		text: "Bob, the van is here at four. Are the tables ready?\n\nAlice\n"},
}

// drafts are unsent messages.
var drafts = []message{
	{key: "draft", from: bob, to: all(alice), reply: "today", subject: "Re: Tables", ago: 10 * time.Minute,
		text: "Three are. The fourth has been turned into a stage for the acc"},
}
