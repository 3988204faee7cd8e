package main

import (
	"context"
	"errors"

	"doublet/client/reach"
	"doublet/mail/reports"
	"doublet/task"
)

// reporting holds the parts that count, read and store reports (mail/reports).
type reporting struct {
	book *reports.Book
	log  *reports.Log
	desk *reports.Desk
}

// openReports opens the counters for reports, and the log of received reports.
func (h *house) openReports() error {
	s := h.system
	book, err := reports.OpenBook(h.env, h.memory, s.Stats)
	if err != nil {
		return err
	}
	log, err := reports.OpenLog(h.env, h.memory)
	if err != nil {
		return err
	}
	desk := reports.NewDesk(h.env, book, log, s.Directory, h.cfg.Reports.Address, h.cfg.Server.Name, s.Stats)
	h.closes("reports", func(ctx context.Context) error { return errors.Join(desk.Close(ctx), book.Save()) })
	h.reports = reporting{book, log, desk}
	s.Received = log
	return nil
}

// startReports starts the task that sends reports.
func (h *server) startReports(tasks *task.Supervisor) {
	s, c := h.system, &h.cfg.Reports
	h.running.Reports = reports.NewSender(h.env, h.reports.book, reports.Options{
		Hostname: h.cfg.Server.Name, Local: c.Address, TLS: c.TLS && h.cfg.Sign.DKIM, DMARC: c.DMARC && h.cfg.Sign.DKIM,
		DNS: s.DNS, Directory: s.Directory, Post: s.Mail.Deposits,
		// Strangers choose these addresses: the networks that administrators may reach are closed to them.
		Reach: reach.New(h.env, s.DNS, nil), Stats: s.Stats,
	})
	tasks.Start(task.Task{Name: "Reports", Run: task.Plain(h.running.Reports.Run)})
}
