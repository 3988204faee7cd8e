package mailbox

import "context"

// Hide does the first step of the deletion of a large folder, and no other: as if the power failed then.
func Hide(ctx context.Context, f *File, name string) error {
	h, err := f.Folder(ctx, name)
	if err != nil {
		return err
	}
	return f.hide(ctx, name, h.ID)
}
