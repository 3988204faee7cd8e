package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/stat"
	"doublet/task"
)

// TestVerbTask checks that a run whose verb reports a problem has failed and shows the report, and that one without has
// not.
func TestVerbTask(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s := task.New(f.Env, task.Plan{}, stat.New(f.Clock))
	defer func() { _ = s.Stop(context.Background()) }()
	s.Start(task.Task{Name: "Fixup", When: task.Never, Run: verbTask(func(_ context.Context, verb string,
		words []string, progress func(admin.Progress)) (admin.Output, error) {
		progress(admin.Progress{Stage: "database"})
		if verb != "check" || !slices.Equal(words, []string{"--repair", "ada"}) {
			t.Errorf("%s %q", verb, words)
		}
		return admin.Output{Output: "3 findings\n", Failed: true}, nil
	}, "check", "--repair")})
	s.Start(task.Task{Name: "UpdAll", When: task.Never, Run: verbTask(func(context.Context, string, []string,
		func(admin.Progress)) (admin.Output, error) {
		return admin.Output{Output: "clean\n"}, nil
	}, "updall")})
	for _, err := range []error{s.Load("fixup", []string{"ada"}), s.Load("updall", nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := func() bool {
		return !slices.ContainsFunc(s.Status(), func(x admin.Task) bool { return x.Runs != 1 || x.State != "idle" })
	}
	for by := time.Now().Add(time.Minute); !ended(); { // the states change on the tasks' own goroutines
		if time.Now().After(by) {
			t.Fatalf("%+v", s.Status())
		}
	}
	if x := s.Status()[0]; x.Failed != 1 || x.Error != "check reports a problem" || x.Progress != "3 findings" {
		t.Errorf("%+v", x)
	}
	if x := s.Status()[1]; x.Failed != 0 || x.Error != "" || x.Progress != "clean" {
		t.Errorf("%+v", x)
	}
}
