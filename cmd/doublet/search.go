package main

import (
	"cmp"
	"path/filepath"

	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/search"
	"doublet/search/text"
	"doublet/stat"
	"doublet/task"
	"doublet/wire/mime"
)

// openSearch starts the maintenance of the full-text index, and makes mail files use it.
func (h *server) openSearch(tasks *task.Supervisor) {
	if !h.cfg.Search.Enabled {
		return
	}
	s := h.system
	index := search.New(s.Store, h.env, searchOptions(&h.cfg, s.Stats))
	h.running.Search = index
	s.Mailbox.UseSearch(index)
	tasks.Start(task.Task{Name: "FullText", Run: task.Plain(index.Run)})
}

// searchDir returns the folder of the full-text index.
func searchDir(cfg *config.Config) string {
	return cmp.Or(cfg.Search.Dir, filepath.Join(cfg.Data.Dir, "search"))
}

func searchOptions(cfg *config.Config, stats *stat.Tree) search.Options {
	c := &cfg.Search
	return search.Options{
		Dir:       searchDir(cfg),
		CacheSize: int64(c.CacheSize), MemTableSize: int64(c.MemtableSize), DocsSize: int64(c.DocumentsSize),
		Limits: text.Limits{
			Part: int(c.PartText), Message: int(c.MessageText), Attachment: int(c.AttachmentSize),
			MIME:     mime.Limits{Depth: cfg.Limits.MIMEDepth, HeaderBytes: int(cfg.Limits.HeaderBytes)},
			Attached: mailbox.HasAttachment,
		},
		NoAttachments: !c.Attachments, Share: c.Share, RebuildShare: c.RebuildShare,
		Kinds: map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil, directory.Kind: search.Directory},
		Parts: mailbox.PartsOf, Stats: stats,
	}
}
