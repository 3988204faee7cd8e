package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/serve/jmapd"
)

// TestConsole plays testdata/console against a running server: every command with its output or error, in one process
// of doublet console for each command. show.txt describes the format.
func TestConsole(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, stop := startDemo(t, data)
	defer stop()
	files, err := filepath.Glob("testdata/console/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		playConsole(t, data, file, string(text))
	}
	file, err := os.ReadFile(filepath.Join(data, config.FileName))
	if err != nil || !strings.Contains(string(file), `at = "Purge=03:15"`) {
		t.Errorf("the file does not hold what set configuration changed: %v\n%s", err, file)
	}
	_, out, _ := command(t, "", "show", "log", "--audit", "--limit", "2000", "--data", data)
	for _, line := range []string{`verb="show tasks"`, `verb="task load"`, `verb="set configuration"`,
		`{\"setting\":\"log.level=…\"}`, `verb=drop`, `verb=console by=system args="" error="no such verb"`} {
		if !strings.Contains(out, line) {
			t.Errorf("the audit log has no %s", line)
		}
	}
}

func playConsole(t *testing.T, data, file, text string) {
	t.Helper()
	var out, errs string
	code := 0
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			code, out, errs = command(t, "", "console", "--data", data, "-c", line[2:])
			if code != 0 && errs == "" {
				t.Errorf("%s:%d: code %d without an error", file, i+1, code)
			}
		case strings.HasPrefix(line, "! "):
			if code == 0 || !strings.Contains(errs, line[2:]) {
				t.Errorf("%s:%d: want the error %q\ngot %d %s%s", file, i+1, line[2:], code, out, errs)
			}
		case strings.HasPrefix(line, "  "):
			if code != 0 || !strings.Contains(out, line[2:]) {
				t.Errorf("%s:%d: want %q\ngot %d %s%s", file, i+1, line[2:], code, out, errs)
			}
		}
	}
}

// TestConsoleInput checks that the lines of standard input are commands, that a mistake does not stop the others, and
// that exit does.
func TestConsoleInput(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if code, _, errs := command(t, "", "console", "--data", data, "-c", "help"); code == 0 {
		t.Error("a console without a server", errs)
	}
	_, stop := startDemo(t, data)
	defer stop()
	input := "# people\n\nshow server\nfrob\nshow tasks\nexit\nuser list\n"
	code, out, errs := command(t, input, "console", "--data", data)
	if code == 0 || !strings.Contains(errs, `"frob"`) || !strings.Contains(out, "Router") ||
		strings.Contains(out, "Ada Lovelace") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

// TestDropPush checks that drop ends the event streams of a person who signed in with a password for each request, and
// that the person may connect again.
func TestDropPush(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	doors, stop := startDemo(t, data)
	defer stop()
	stream := func() *http.Response {
		t.Helper()
		url := "http://" + doors["http"] + jmapd.PathEvents + "?types=*&closeafter=no&ping=0"
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("alice", "demo")
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	first := stream()
	_, out, errs := command(t, "", "drop", "bob", "--data", data)
	if !strings.Contains(out, "0 connections") {
		t.Fatal(out, errs)
	}
	_, out, errs = command(t, "", "drop", "alice", "--data", data)
	if !strings.Contains(out, "1 connections and 0 sessions") {
		t.Fatal(out, errs)
	}
	if _, err := io.Copy(io.Discard, first.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	stream()
}

// oneRouter is a server whose only task is Router.
type oneRouter struct{}

func (oneRouter) Call(context.Context, string, json.RawMessage, func(admin.Progress)) (json.RawMessage, error) {
	return json.RawMessage(`[{"name":"Router"}]`), nil
}

// TestConsoleEditor checks the line editor: completion of commands and tasks, and the history.
func TestConsoleEditor(t *testing.T) {
	t.Parallel()
	keys := "tell rou\t\tq\t\r" + "\x1b[A\r" + "sho\tta\t\r"
	var screen bytes.Buffer
	c := &console{app: &app{streams: streams{out: &screen}}, caller: oneRouter{}}
	e := c.terminal(context.Background(), struct {
		io.Reader
		io.Writer
	}{strings.NewReader(keys), &screen})
	for _, want := range []string{"tell router q", "tell router q", "show tasks"} {
		line, err := e.ReadLine()
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%q %v, want %q", line, err, want)
		}
	}
	if _, err := e.ReadLine(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for _, word := range []string{"retry", "release"} {
		if !strings.Contains(screen.String(), word) {
			t.Errorf("the choices lack %s: %q", word, screen.String())
		}
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	list := []string{"show server", "show stat", "show tasks", "set configuration"}
	for _, c := range []struct{ line, longer, choices string }{
		{"", "s", "show set"},
		{"sh", "show ", "show"},
		{"show s", "show s", "server stat"},
		{"show sta", "show stat", "stat"},
		{"Show Ta", "Show Tasks", "tasks"},
		{"x", "x", ""},
	} {
		longer, choices := complete(c.line, list)
		if !strings.EqualFold(longer, c.longer) || strings.Join(choices, " ") != c.choices {
			t.Errorf("%q: %q %q", c.line, longer, choices)
		}
	}
}
